//! Real processes: their input, environment, output and termination.

mod concurrency;
mod examples;
mod termination;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use prometheus_client::metrics::gauge::Gauge;
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{runtime::Runtime, time::timeout};
use tokio_util::task::TaskTracker;

use super::*;
use crate::{
    event::{Context, EventName, HookOutput, HookStatus},
    protocol,
    transport::{ProcessSlots, TransportDeps},
};

const MIB: usize = 1024 * 1024;

/// A working directory for hooks, and their resources.
struct Fixture {
    folder: TempDir,
    deps: TransportDeps,
    context: Context,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (tasks, directory) = (TaskTracker::new(), folder.path().to_owned());
        let deps = TransportDeps::new(tasks, slots(64), Gauge::default(), MIB, directory);
        Self {
            folder,
            deps,
            context: Context::default(),
        }
    }

    fn hook(&self, command: &str) -> Arc<dyn Transport> {
        self.hook_with(json!({ "command": command }))
    }

    fn hook_with(&self, settings: Value) -> Arc<dyn Transport> {
        let Value::Object(settings) = settings else {
            panic!("settings are an object");
        };
        crate::transport::build(
            "command",
            TransportConfig {
                label: "hook",
                settings,
                deps: &self.deps,
            },
        )
        .unwrap()
    }

    async fn call(
        &self,
        hook: &dyn Transport,
        input: Vec<u8>,
    ) -> Result<HookResult, TransportError> {
        hook.call(HookCall {
            context: &self.context,
            event: EventName::BeforeTool,
            input: input.into(),
            protocol: protocol::find("gemini").unwrap(),
            deadline: tokio::time::Instant::now() + Duration::from_mins(1),
            is_proof: false,
        })
        .await
    }

    async fn run(&self, command: &str) -> Result<HookResult, TransportError> {
        self.call(&*self.hook(command), b"{}".to_vec()).await
    }

    /// Returns what a hook printed as plain text.
    async fn print(&self, command: &str) -> String {
        let answer = self.run(command).await.unwrap();
        answer.output.system_message.unwrap_or_default()
    }

    /// Calls a hook, and drops the call when the hook has written its `pids`.
    async fn run_and_drop(&self, command: &str) -> Vec<Pid> {
        let hook = self.hook(command);
        let call = self.call(&*hook, b"{}".to_vec());
        tokio::select! {
            answer = call => panic!("ended by itself: {answer:?}"),
            pids = self.pids() => pids,
        }
    }

    async fn pids(&self) -> Vec<Pid> {
        until(|| read_pids(&self.file("pids"))).await
    }

    /// Waits until all processes have ended.
    async fn wait_until_idle(&self) {
        self.deps.tasks.close();
        self.deps.tasks.wait().await;
        assert_eq!(self.deps.running.get(), 0);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn slots(total: usize) -> Arc<ProcessSlots> {
    let slots = Arc::new(ProcessSlots::default());
    slots.resize(total);
    slots
}

/// Polls, because files and processes of others cannot be awaited.
async fn until<T>(mut poll: impl FnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            match poll() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    timeout(Duration::from_secs(20), polling).await.unwrap()
}

/// Reads the process ids in a file that ends with a full stop.
fn read_pids(file: &Path) -> Option<Vec<Pid>> {
    let text = fs::read_to_string(file).ok()?;
    let numbers = text.trim().strip_suffix('.')?.split_whitespace();
    Some(numbers.map(pid).collect())
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Returns whether a process is gone, or is a zombie of a parent that is not this process.
fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_err() || stat.is_ok_and(|text| text.contains(") Z"))
}

#[tokio::test]
async fn five_mebibytes_go_in_and_come_out() {
    let mut fixture = Fixture::new();
    fixture.deps.output_limit = 6 * MIB;
    let input = json!({"systemMessage": "x".repeat(5 * MIB)}).to_string();

    let answer = fixture
        .call(&*fixture.hook("cat"), input.into())
        .await
        .unwrap();

    let message = answer.output.system_message.unwrap();
    assert_eq!(message.len(), 5 * MIB);
}

#[tokio::test]
async fn a_hook_may_write_much_before_it_reads() {
    let fixture = Fixture::new();
    let hook = fixture.hook("head -c 500000 /dev/zero | tr '\\0' x; wc -c >&2; exit 1");

    let answer = fixture.call(&*hook, vec![b'y'; 5 * MIB]).await.unwrap();

    let message = answer.output.system_message.unwrap();
    assert_eq!(message, format!("Warning: {}", 5 * MIB));
}

#[tokio::test]
async fn a_hook_need_not_read_the_event() {
    let fixture = Fixture::new();

    for command in ["echo no >&2; exit 2", "exec <&-; echo no >&2; exit 2"] {
        let hook = fixture.hook(command);
        let answer = fixture.call(&*hook, vec![b'x'; 5 * MIB]).await.unwrap();
        assert_eq!(answer.output, HookOutput::denial("no"), "{command}");
    }
}

#[tokio::test]
async fn a_hook_that_closes_its_pipes_is_waited_for() {
    let fixture = Fixture::new();

    let answer = fixture
        .run("echo no >&2; exec <&- >&- 2>&-; sleep 0.2; exit 2")
        .await;

    assert_eq!(answer.unwrap().output, HookOutput::denial("no"));
}

#[tokio::test]
async fn the_error_of_a_hook_that_cannot_start_has_no_path() {
    let mut fixture = Fixture::new();
    fixture.deps.directory = fixture.file("missing");

    let error = fixture.run("true").await.unwrap_err();

    assert!(matches!(error, TransportError::Start(_)), "{error:?}");
    assert_eq!(error.to_string(), "failed to start the process");
    fixture.wait_until_idle().await;
}

#[tokio::test]
async fn output_is_limited_on_each_stream() {
    let mut fixture = Fixture::new();
    fixture.deps.output_limit = 100;

    for stream in ["", " >&2"] {
        let most = fixture.run(&format!("printf '%100s' x{stream}")).await;
        let more = fixture.run(&format!("printf '%101s' x{stream}")).await;
        assert!(most.is_ok(), "{most:?}");
        let error = more.unwrap_err();
        assert!(matches!(error, TransportError::OutputLimit), "{error:?}");
    }
}

#[tokio::test]
async fn a_process_with_endless_output_is_killed() {
    let fixture = Fixture::new();

    let error = fixture
        .run("trap '' TERM PIPE; sleep 1000 & echo $$ $!. > pids; yes & yes >&2")
        .await
        .unwrap_err();

    assert_eq!(error.to_string(), "output limit exceeded");
    fixture.wait_until_idle().await;
    assert!(fixture.pids().await.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_hook_runs_in_its_directory_with_its_variables_and_no_others() {
    let mut fixture = Fixture::new();
    let path = std::env::var_os("PATH").unwrap();
    fixture.deps.environment = vec![("PATH".into(), path.clone())];
    fixture.context.session_id = "s1".into();
    fixture.context.cwd = "/somewhere/of/the/request".into();
    let hook = fixture.hook_with(json!({
        "command": "env",
        "env": {"MINE": "a b", "CLAUDE_PROJECT_DIR": "mine"},
    }));

    let answer = fixture.call(&*hook, vec![]).await.unwrap();

    let folder = fixture.folder.path().to_str().unwrap();
    let printed = answer.output.system_message.unwrap();
    // Bash adds three of its own.
    let mut seen: Vec<&str> = printed
        .lines()
        .filter(|line| !["SHLVL=0", "_="].iter().any(|own| line.starts_with(own)))
        .collect();
    seen.sort_unstable();
    let expected = [
        "CLAUDE_PROJECT_DIR=mine",
        &format!("GEMINI_CWD={folder}"),
        &format!("GEMINI_PROJECT_DIR={folder}"),
        "GEMINI_SESSION_ID=s1",
        &format!("LLXPRT_PROJECT_DIR={folder}"),
        "MINE=a b",
        &format!("PATH={}", path.to_str().unwrap()),
        &format!("PWD={folder}"),
        &format!("TABNINE_PROJECT_DIR={folder}"),
        &format!("TERMINAI_PROJECT_DIR={folder}"),
        "TERMINAI_SESSION_ID=s1",
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_session_id_is_never_executed_and_never_prevents_a_start() {
    let mut fixture = Fixture::new();
    let command = "echo \"[${GEMINI_SESSION_ID-none}]\"";

    fixture.context.session_id = "$(touch here); `touch here`".into();
    assert_eq!(
        fixture.print(command).await,
        "[$(touch here); `touch here`]"
    );
    fixture.context.session_id = "a\0b".into();
    assert_eq!(fixture.print(command).await, "[none]");
    fixture.context.session_id = "x".repeat(MIB);
    assert_eq!(fixture.print(command).await, "[none]");

    assert!(!fixture.file("here").exists());
}

#[test]
fn a_hooks_variables_are_not_in_its_debug_output() {
    let fixture = Fixture::new();
    let hook = fixture.hook_with(json!({"command": "true", "env": {"KEY": "hush"}}));

    let shown = format!("{hook:?}");
    assert!(shown.contains(r#"shell: ShellCommand("true"),"#), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
}

/// Number of page faults of this thread.
fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn a_start_copies_no_page_tables() {
    // A fork marks all pages as copy-on-write, so that the next write to each faults.
    let fixture = Fixture::new();
    let runtime = Runtime::new().unwrap();
    let hook = fixture.hook("echo '{}'");
    let mut held = vec![1_u8; 64 * MIB];
    let mut fewest = u64::MAX;

    // Other tests may fork meanwhile, but hardly each time.
    for round in 0..5 {
        runtime.block_on(fixture.call(&*hook, Vec::new())).unwrap();
        let before = page_faults();
        held.iter_mut().step_by(4096).for_each(|byte| *byte = round);
        fewest = fewest.min(page_faults() - before);
    }

    assert!(fewest < 16, "{fewest} pages were copied");
}
