//! `POST /hookgate/v1/events`: an event in, the hooks' output back.

use std::{pin::Pin, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::{RawQuery, Request, State},
    response::{IntoResponse, Response},
};
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    dialect,
    event::{
        Action, Caller, Context, Diagnostic, EventKind, EventName, EventVisitor, HookOutput, Trace,
        Verdict,
    },
    hook::{EventOrigin, EventOutcome, HookRun},
    session::SessionKey,
    state::{self, ApiError, App, Authenticated, ErrorReason, RequestId, Snapshot, UnderWay, hold},
    upstream::content_headers::{self, ContentEncoding, MediaType},
};

/// The longest name of a session, in characters: it is remembered.
const LONGEST_SESSION: usize = 256;

/// Reports one event, and answers what the hooks come to, in the shape a hook
/// prints.
#[utoipa::path(post, path = "/hookgate/v1/events", tag = "events",
    params(
        ("explain" = Option<String>, Query, description = "`1` adds what each hook did."),
        ("wait" = Option<String>, Query, description = "`1` waits for the hooks of an advisory event.")),
    request_body(content = super::EventInput, description = "The hook input of any event. Missing base fields are filled in."),
    responses(
        (status = 200, description = "What the hooks come to.", body = HookOutput),
        (status = 202, description = "Taken; nobody waits for advisory events."),
        state::Refusals))]
pub async fn report_event(
    State(app): State<App>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    check_media_type(&head.headers)?;
    let Some(admitted) = head.extensions.get::<Authenticated>() else {
        let message = "nobody asked who calls";
        return Err(ApiError::new(ErrorReason::Internal, message));
    };
    let Authenticated { identity, snapshot } = admitted.clone();
    let audit = snapshot.audit.clone().map(|it| (it.mark(), it));
    if let Some((_, audit)) = &audit {
        audit.check()?;
    }
    let length = body.size_hint().exact().and_then(|it| it.try_into().ok());
    let limits = &snapshot.config.limits;
    // What does not say how long it is may be as long as any.
    hold(
        &head,
        length.unwrap_or(limits.event).min(limits.event),
        limits.memory,
    )?;
    let fields = read(body, &snapshot).await?;
    let name = event_name(&fields)?;
    let options = Options::read(query.as_deref().unwrap_or_default());
    let mut context = context(&fields, identity.caller(), &snapshot)?;
    context.request_id = RequestId::of(&head.extensions).to_string();
    context.trace = state::trace(snapshot.audit.as_deref(), &head.headers);
    remember(&snapshot, &context, name).await;
    let report = Report {
        snapshot,
        context,
        fields,
        explained: options.explained,
    };
    let fired = name.visit(report)?;
    if name.is_advisory() && !options.waited {
        // It is under way until its hooks have heard it, though nobody waits.
        let under_way = head.extensions.get::<UnderWay>().cloned();
        app.shared.tasks.spawn(async move {
            fired.await;
            drop(under_way);
        });
        return Ok((StatusCode::ACCEPTED, Json(json!({}))).into_response());
    }
    let output = fired.await;
    // What the agent does next rests on it.
    if let Some((since, audit)) = audit {
        audit.commit(since).await?;
    }
    Ok(Json(output).into_response())
}

/// What each hook did, with `?explain=1`.
#[derive(Debug, Serialize, ToSchema)]
pub struct Explanation {
    /// `proceed`, `ask`, `respond`, `deny` or `stop`.
    verdict: &'static str,
    /// In plan order.
    hooks: Vec<HookReport>,
    /// What was left out while the outputs were put together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<DiagnosticReport>,
    /// The session the event belongs to.
    session: String,
    /// The additional context as it goes into the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// The arguments of the tool call, if hooks changed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
}

/// One hook's run.
#[derive(Debug, Serialize, ToSchema)]
pub struct HookReport {
    name: String,
    /// `ok`, `block` or `failed`.
    status: &'static str,
    ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<DiagnosticReport>,
    /// What it would have done, if it only observes.
    #[serde(skip_serializing_if = "Option::is_none")]
    would: Option<&'static str>,
}

/// Something about a hook's output that its author should know.
#[derive(Debug, Serialize, ToSchema)]
pub struct DiagnosticReport {
    code: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    detail: String,
}

/// What the query asks for.
#[derive(Debug, Clone, Copy)]
struct Options {
    explained: bool,
    waited: bool,
}

impl Options {
    fn read(query: &str) -> Self {
        let has = |wanted| query.split('&').any(|it| it == wanted);
        Self {
            explained: has("explain=1"),
            waited: has("wait=1"),
        }
    }
}

/// An event of a kind known by name, about to be fired.
struct Report {
    snapshot: Arc<Snapshot>,
    context: Context,
    fields: Map<String, Value>,
    explained: bool,
}

type Answering = Pin<Box<dyn Future<Output = Value> + Send>>;

impl EventVisitor for Report {
    type Output = Result<Answering, ApiError>;

    fn visit<E: EventKind>(self) -> Self::Output {
        let fields = Value::Object(self.fields);
        let explained = self.explained.then(|| Reported {
            context: self.context.clone(),
            fields: fields.clone(),
        });
        let event: E = serde_path_to_error::deserialize(fields).map_err(|error| {
            let (path, cause) = (error.path().to_string(), error.inner());
            let message = match path.as_str() {
                "." => cause.to_string(),
                path => format!("`{path}`: {cause}"),
            };
            bad_event(message)
        })?;
        let (snapshot, context) = (self.snapshot, self.context);
        Ok(Box::pin(async move {
            let fired = snapshot
                .engine
                .fire(&context, event, EventOrigin::Reported)
                .await;
            if E::NAME == EventName::SessionEnd {
                let key = session(&context);
                snapshot.sessions.remove(&key).await;
                snapshot.remove_transcript(&key);
            }
            answer::<E>(fired, explained)
        }))
    }
}

/// What an agent reports itself is not read off its model calls.
async fn remember(snapshot: &Snapshot, context: &Context, name: EventName) {
    if context.session_named {
        let SessionKey { caller, id } = session(context);
        snapshot
            .sessions
            .record_reported_event(&caller, &id, name)
            .await;
    }
}

fn session(context: &Context) -> SessionKey {
    SessionKey {
        caller: context.caller.key.clone(),
        id: context.session_id.clone(),
    }
}

/// What an answer is explained by.
struct Reported {
    context: Context,
    fields: Value,
}

/// The output as a hook prints it; explained if what was reported is given.
fn answer<E: EventKind>(fired: EventOutcome<E::Verdict>, explained: Option<Reported>) -> Value {
    let mut output = fired.output;
    let action = fired.verdict.action();
    let context = output.rendered_context();
    let arguments = explained
        .as_ref()
        .filter(|_| action == Action::Proceed)
        .and_then(|it| edited_arguments::<E>(&it.fields, &output));
    let added = output.plain_context().filter(|_| action == Action::Proceed);
    let specific = &mut output.hook_specific_output;
    if let Some(added) = added {
        specific.insert("additionalContext".to_owned(), json!(added));
    }
    if !specific.is_empty() {
        specific.insert("hookEventName".to_owned(), json!(E::NAME));
    }
    // A struct of names and values always becomes JSON.
    let mut answer = serde_json::to_value(&output).unwrap_or_default();
    if let (Some(reported), Some(fields)) = (explained, answer.as_object_mut()) {
        let explanation = Explanation {
            verdict: action.as_str(),
            hooks: fired.runs.into_iter().map(HookReport::of).collect(),
            diagnostics: fired.diagnostics.into_iter().map(Into::into).collect(),
            session: reported.context.session_id,
            context,
            arguments,
        };
        fields.insert("hookgate".to_owned(), json!(explanation));
    }
    answer
}

/// The arguments of a tool call as hooks left them.
fn edited_arguments<E: EventKind>(reported: &Value, output: &HookOutput) -> Option<Value> {
    output.specific("tool_input")?;
    let mut event: E = serde_json::from_value(reported.clone()).ok()?;
    event.apply(output);
    let mut edited = serde_json::to_value(event).ok()?;
    Some(edited.get_mut("tool_input")?.take())
}

impl HookReport {
    fn of(run: HookRun) -> Self {
        Self {
            status: run.status().as_str(),
            name: run.name,
            ms: u64::try_from(run.elapsed.as_millis()).unwrap_or(u64::MAX),
            diagnostics: run.answer.diagnostics.into_iter().map(Into::into).collect(),
            would: run.would.map(Action::as_str),
        }
    }
}

impl From<Diagnostic> for DiagnosticReport {
    fn from(diagnostic: Diagnostic) -> Self {
        Self {
            code: diagnostic.code.as_str(),
            detail: diagnostic.detail,
        }
    }
}

fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    let json = matches!(
        content_headers::media_type(headers),
        MediaType::Absent | MediaType::Json
    );
    if json && content_headers::encoding(headers) == ContentEncoding::Identity {
        return Ok(());
    }
    Err(ApiError::new(
        ErrorReason::UnsupportedMediaType,
        "an event is `application/json`, in UTF-8 and not compressed",
    ))
}

async fn read(body: Body, snapshot: &Snapshot) -> Result<Map<String, Value>, ApiError> {
    let limit = snapshot.config.limits.event;
    let whole = Limited::new(body, limit).collect();
    let whole = tokio::time::timeout(snapshot.config.timeouts.body, whole).await;
    let bytes = match whole {
        Ok(Ok(whole)) => whole.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("the event is larger than {limit} bytes");
            return Err(ApiError::new(ErrorReason::BodyTooLarge, message));
        }
        Ok(Err(error)) => return Err(ApiError::broken_body(&*error)),
        Err(_elapsed) => {
            let message = "the request's body did not come in time";
            return Err(ApiError::new(ErrorReason::BodyTimeout, message));
        }
    };
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| ApiError::new(ErrorReason::BadJson, "not UTF-8"))?;
    match dialect::parse(text)? {
        Value::Object(fields) => Ok(fields),
        _ => Err(bad_event("an event is a JSON object".to_owned())),
    }
}

fn event_name(fields: &Map<String, Value>) -> Result<EventName, ApiError> {
    let name = fields.get("hook_event_name").and_then(Value::as_str);
    name.and_then(EventName::parse).ok_or_else(|| {
        let names: Vec<&str> = EventName::ALL.iter().map(|it| it.as_str()).collect();
        bad_event(format!(
            "`hook_event_name` must be one of {}",
            names.join(", ")
        ))
    })
}

/// The base fields; what the agent left out is filled in.
fn context(
    fields: &Map<String, Value>,
    caller: Caller,
    snapshot: &Snapshot,
) -> Result<Context, ApiError> {
    let text = |key: &str, default: &dyn Fn() -> String| match fields.get(key) {
        None | Some(Value::Null) => Ok(default()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(bad_event(format!("`{key}` must be a string"))),
    };
    if let Some(Value::String(id)) = fields.get("session_id")
        && id.chars().count() > LONGEST_SESSION
    {
        let message = format!("`session_id` is longer than {LONGEST_SESSION} characters");
        return Err(bad_event(message));
    }
    let directory = || snapshot.config.hook_directory.display().to_string();
    Ok(Context {
        request_id: String::new(),
        session_named: fields.get("session_id").is_some_and(Value::is_string),
        session_id: text("session_id", &|| Uuid::new_v4().to_string())?,
        transcript_path: text("transcript_path", &String::new)?,
        cwd: text("cwd", &directory)?,
        timestamp: text("timestamp", &state::now)?,
        caller,
        trace: Trace::default(),
    })
}

fn bad_event(message: String) -> ApiError {
    ApiError::new(ErrorReason::BadEvent, message)
}
