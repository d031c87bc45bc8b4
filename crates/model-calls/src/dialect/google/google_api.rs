//! The APIs of this family: their differences, and the bodies that they have in common.

use bytes::Bytes;

use crate::dialect::{
    api_dialect::{Dialect, OpenedRequest, ReadChunks, WriteChunks},
    call::Call,
    document::Document,
    error::{Result, field_error},
    google::{
        code_assist, gemini, request,
        response::{self, envelope::ResponseEnvelope},
        vertex,
    },
    method::{Api, Framing, MethodSpec},
};

/// One API of this family.
#[derive(Debug)]
pub struct GoogleApi {
    api: Api,
    methods: &'static [MethodSpec],
    versions: &'static [&'static str],
    default_version: Option<&'static str>,
    open_request: fn(&mut Call, Document) -> Result<OpenedRequest>,
    envelope: ResponseEnvelope,
}

pub const GEMINI: GoogleApi = GoogleApi {
    api: Api::Gemini,
    methods: gemini::METHODS,
    versions: &["v1beta", "v1", "v1alpha"],
    // litellm sends paths without a version.
    default_version: Some("v1beta"),
    open_request: request::open_bare,
    envelope: ResponseEnvelope::None,
};

pub const VERTEX: GoogleApi = GoogleApi {
    api: Api::Vertex,
    methods: vertex::METHODS,
    versions: &["v1", "v1beta1"],
    default_version: None,
    open_request: open_without_instances,
    envelope: ResponseEnvelope::None,
};

pub const CODE_ASSIST: GoogleApi = GoogleApi {
    api: Api::CodeAssist,
    methods: code_assist::METHODS,
    versions: &["v1internal"],
    default_version: None,
    open_request: request::open_wrapped,
    envelope: ResponseEnvelope::ResponseField,
};

/// Prompts of older models, which hooks cannot read.
const INSTANCES: &[&str] = &["instances"];

impl Dialect for GoogleApi {
    fn api(&self) -> Api {
        self.api
    }

    fn methods(&self) -> &'static [MethodSpec] {
        self.methods
    }

    fn versions(&self) -> &'static [&'static str] {
        self.versions
    }

    fn default_version(&self) -> Option<&'static str> {
        self.default_version
    }

    fn open_request(&self, call: &mut Call, body: Document) -> Result<OpenedRequest> {
        (self.open_request)(call, body)
    }

    fn session_in(&self, body: &Document) -> Result<Option<String>> {
        match self.envelope {
            ResponseEnvelope::None => Ok(None),
            ResponseEnvelope::ResponseField => request::session_in(body),
        }
    }

    fn close_request(&self, call: &Call, original: &Document, form: &Document) -> Result<Bytes> {
        request::close_request(call, original, form)
    }

    fn open_response(&self, body: Bytes) -> Result<response::ResponseDocument> {
        response::open_response(body, self.envelope)
    }

    fn close_response(&self, response: &response::ResponseDocument) -> Result<Bytes> {
        Ok(response.to_wire(self.envelope))
    }

    fn chunk_reader(&self) -> Box<dyn ReadChunks> {
        Box::new(response::ChunkReader::new(self.envelope))
    }

    fn chunk_writer(&self, framing: Framing) -> Box<dyn WriteChunks> {
        Box::new(response::ChunkWriter::new(framing, self.envelope))
    }
}

fn open_without_instances(call: &mut Call, body: Document) -> Result<OpenedRequest> {
    if body.has(INSTANCES) {
        return Err(field_error("instances", "replaced by `contents`"));
    }
    request::open_bare(call, body)
}
