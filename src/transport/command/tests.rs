//! Real processes: what they are given, what they may do, and how they end.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
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

/// A folder with hooks that run in it.
struct Bench {
    folder: TempDir,
    toolbox: TransportDeps,
    context: Context,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (tasks, directory) = (TaskTracker::new(), folder.path().to_owned());
        let toolbox = TransportDeps::new(tasks, places(64), Gauge::default(), MIB, directory);
        Self {
            folder,
            toolbox: toolbox.unwrap(),
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
        super::super::build(
            "command",
            Setup {
                label: "hook",
                settings,
                toolbox: &self.toolbox,
            },
        )
        .unwrap()
    }

    async fn call(&self, hook: &dyn Transport, input: Vec<u8>) -> Result<Answer, TransportError> {
        hook.call(HookCall {
            context: &self.context,
            event: EventName::BeforeTool,
            document: input.into(),
            protocol: protocol::find("gemini").unwrap(),
            deadline: tokio::time::Instant::now() + Duration::from_mins(1),
        })
        .await
    }

    async fn run(&self, command: &str) -> Result<Answer, TransportError> {
        self.call(&*self.hook(command), b"{}".to_vec()).await
    }

    /// What a hook printed as plain text.
    async fn print(&self, command: &str) -> String {
        let answer = self.run(command).await.unwrap();
        answer.output.system_message.unwrap_or_default()
    }

    /// Calls a hook, and drops the call when the hook has written its `pids`.
    async fn run_and_leave(&self, command: &str) -> Vec<Pid> {
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

    /// Waits until no hook's process is left.
    async fn quiet(&self) {
        self.toolbox.tasks.close();
        self.toolbox.tasks.wait().await;
        assert_eq!(self.toolbox.alive.get(), 0);
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn places(total: usize) -> Arc<ProcessSlots> {
    let places = Arc::new(ProcessSlots::default());
    places.resize(total);
    places
}

/// Looks again and again, because files and strangers' processes tell nobody.
async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            match look() {
                Some(found) => return found,
                None => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        }
    };
    timeout(Duration::from_secs(20), looking).await.unwrap()
}

/// The numbers in a file that ends with a full stop.
fn read_pids(file: &Path) -> Option<Vec<Pid>> {
    let text = fs::read_to_string(file).ok()?;
    let numbers = text.trim().strip_suffix('.')?.split_whitespace();
    Some(numbers.map(pid).collect())
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.parse().unwrap()).unwrap()
}

/// Whether a process is gone, or waits as a zombie for a parent that is not
/// ours.
fn is_dead(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_err() || stat.is_ok_and(|it| it.contains(") Z"))
}

#[tokio::test]
async fn a_hook_reads_the_event_and_says_no() {
    let bench = Bench::new();
    let hook = bench.hook(r#"read -r event; echo "{\"decision\":\"deny\",\"reason\":$event}""#);

    let answer = bench.call(&*hook, b"\"seen\"".to_vec()).await.unwrap();

    assert_eq!(answer.output, HookOutput::denial("seen"));
    bench.quiet().await;
}

#[tokio::test]
async fn five_mebibytes_go_in_and_come_out() {
    let mut bench = Bench::new();
    bench.toolbox.output_limit = 6 * MIB;
    let input = json!({"systemMessage": "x".repeat(5 * MIB)}).to_string();

    let answer = bench.call(&*bench.hook("cat"), input.into()).await.unwrap();

    let message = answer.output.system_message.unwrap();
    assert_eq!(message.len(), 5 * MIB);
}

#[tokio::test]
async fn a_hook_may_write_much_before_it_reads() {
    let bench = Bench::new();
    let hook = bench.hook("head -c 500000 /dev/zero | tr '\\0' x; wc -c >&2; exit 1");

    let answer = bench.call(&*hook, vec![b'y'; 5 * MIB]).await.unwrap();

    let message = answer.output.system_message.unwrap();
    assert_eq!(message, format!("Warning: {}", 5 * MIB));
}

#[tokio::test]
async fn a_hook_need_not_read_the_event() {
    let bench = Bench::new();

    for command in ["echo no >&2; exit 2", "exec <&-; echo no >&2; exit 2"] {
        let hook = bench.hook(command);
        let answer = bench.call(&*hook, vec![b'x'; 5 * MIB]).await.unwrap();
        assert_eq!(answer.output, HookOutput::denial("no"), "{command}");
    }
}

#[tokio::test]
async fn a_hook_that_closes_its_pipes_is_waited_for() {
    let bench = Bench::new();

    let answer = bench
        .run("echo no >&2; exec <&- >&- 2>&-; sleep 0.2; exit 2")
        .await;

    assert_eq!(answer.unwrap().output, HookOutput::denial("no"));
}

#[tokio::test]
async fn a_hook_killed_by_a_signal_has_failed() {
    let bench = Bench::new();

    let answer = bench
        .run(r#"echo '{"decision":"deny"}'; kill -9 $$"#)
        .await
        .unwrap();

    assert_eq!(answer.status, HookStatus::Failed);
    assert_eq!(answer.output, HookOutput::default());
    assert_eq!(answer.diagnostics[0].detail, "ended by signal 9");
}

#[tokio::test]
async fn a_command_nobody_knows_has_failed() {
    let bench = Bench::new();

    let answer = bench.run("no-such-command-here").await.unwrap();

    let message = answer.output.system_message.unwrap();
    assert_eq!(answer.status, HookStatus::Failed);
    assert!(message.starts_with("Warning: bash: "), "{message}");
    assert_eq!(answer.diagnostics[0].detail, "exit code 127");
}

#[tokio::test]
async fn a_hook_that_cannot_start_tells_no_path() {
    let mut bench = Bench::new();
    bench.toolbox.directory = bench.file("missing");

    let error = bench.run("true").await.unwrap_err();

    assert!(matches!(error, TransportError::Start(_)), "{error:?}");
    assert_eq!(error.to_string(), "could not be started");
    bench.quiet().await;
}

#[tokio::test]
async fn output_is_limited_on_each_stream() {
    let mut bench = Bench::new();
    bench.toolbox.output_limit = 100;

    for stream in ["", " >&2"] {
        let most = bench.run(&format!("printf '%100s' x{stream}")).await;
        let more = bench.run(&format!("printf '%101s' x{stream}")).await;
        assert!(most.is_ok(), "{most:?}");
        let error = more.unwrap_err();
        assert!(matches!(error, TransportError::TooMuchOutput), "{error:?}");
    }
}

#[tokio::test]
async fn endless_output_is_cut_and_its_writers_killed() {
    let bench = Bench::new();

    let error = bench
        .run("trap '' TERM PIPE; sleep 1000 & echo $$ $!. > pids; yes & yes >&2")
        .await
        .unwrap_err();

    assert_eq!(error.to_string(), "too much output");
    bench.quiet().await;
    assert!(bench.pids().await.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_hook_runs_in_its_folder_with_its_variables_and_no_others() {
    let mut bench = Bench::new();
    let path = std::env::var_os("PATH").unwrap();
    bench.toolbox.environment = vec![("PATH".into(), path.clone())];
    bench.context.session_id = "s1".into();
    bench.context.cwd = "/somewhere/a/request/says".into();
    let hook = bench.hook_with(json!({
        "command": "env",
        "env": {"MINE": "a b", "CLAUDE_PROJECT_DIR": "mine"},
    }));

    let answer = bench.call(&*hook, vec![]).await.unwrap();

    let folder = bench.folder.path().to_str().unwrap();
    let printed = answer.output.system_message.unwrap();
    // Bash adds three of its own.
    let mut seen: Vec<&str> = printed
        .lines()
        .filter(|it| !["SHLVL=0", "_="].iter().any(|own| it.starts_with(own)))
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
async fn what_a_request_says_is_never_run_and_never_keeps_a_hook_from_running() {
    let mut bench = Bench::new();
    let command = "echo \"[${GEMINI_SESSION_ID-none}]\"";

    bench.context.session_id = "$(touch here); `touch here`".into();
    assert_eq!(bench.print(command).await, "[$(touch here); `touch here`]");
    bench.context.session_id = "a\0b".into();
    assert_eq!(bench.print(command).await, "[none]");
    bench.context.session_id = "x".repeat(MIB);
    assert_eq!(bench.print(command).await, "[none]");

    assert!(!bench.file("here").exists());
}

#[tokio::test]
async fn a_dropped_call_ends_the_hook_and_its_children() {
    let bench = Bench::new();
    let pids = bench
        .run_and_leave("sleep 1000 & echo $$ $!. > pids; sleep 1000")
        .await;

    bench.quiet().await;

    assert_eq!(pids.len(), 2);
    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_hook_asked_to_end_may_clean_up() {
    let bench = Bench::new();
    bench
        .run_and_leave(
            "trap 'echo bye; touch clean; exit' TERM; echo $$. > pids; sleep 1000 & wait",
        )
        .await;

    bench.quiet().await;

    assert!(bench.file("clean").exists());
}

#[tokio::test]
async fn a_hook_that_does_not_listen_is_killed_two_seconds_later() {
    let bench = Bench::new();
    let pids = bench
        .run_and_leave("trap '' TERM; sleep 1000 & echo $$ $!. > pids; sleep 1000")
        .await;

    let left = Instant::now();
    bench.quiet().await;

    assert!(left.elapsed() >= Duration::from_secs(2));
    assert_eq!(pids.len(), 2);
    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn a_child_that_does_not_listen_outlives_its_parent_by_two_seconds_only() {
    let bench = Bench::new();
    let pids = bench
        .run_and_leave("(trap '' TERM; exec sleep 1000) & echo $!. > pids; sleep 1000")
        .await;

    bench.quiet().await;

    assert!(pids.into_iter().all(is_dead));
}

#[tokio::test]
async fn nothing_stays_behind_an_answer() {
    let bench = Bench::new();

    let child = bench.print("sleep 1000 <&- >&- 2>&- & echo child $!").await;

    bench.quiet().await;
    assert!(is_dead(pid(child.strip_prefix("child ").unwrap())));
}

#[tokio::test]
async fn a_child_that_holds_the_pipes_is_waited_for_a_little() {
    let bench = Bench::new();

    let started = Instant::now();
    let child = bench.print("sleep 1000 & echo child $!").await;

    assert!(started.elapsed() >= Duration::from_millis(250));
    bench.quiet().await;
    assert!(is_dead(pid(child.strip_prefix("child ").unwrap())));
}

#[tokio::test]
async fn processes_are_killed_even_when_the_runtime_is_gone() {
    let bench = Bench::new();
    let pids = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let runtime = Runtime::new().unwrap();
            runtime.block_on(
                bench.run_and_leave("trap '' TERM; sleep 1000 & echo $$ $!. > pids; sleep 1000"),
            )
        });
        thread.join().unwrap()
    });

    for pid in pids {
        until(|| is_dead(pid).then_some(())).await;
    }
}

#[tokio::test]
async fn no_more_hooks_run_at_once_than_permitted() {
    let mut bench = Bench::new();
    let most = 8;
    bench.toolbox.places = places(most);
    let count = "touch run.$$; echo $(ls run.* | wc -l) at once; rm run.$$";

    let counts = join_all((0..64).map(|_| bench.print(count))).await;

    assert_eq!(counts.len(), 64);
    for running in counts {
        let running = running.strip_suffix(" at once").unwrap().parse().unwrap();
        assert!((1..=most).contains(&running), "{running}");
    }
}

#[tokio::test]
async fn sixty_four_hooks_run_at_once() {
    let bench = Bench::new();
    // Each waits for all others.
    let meet = "touch here.$$; until [ $(ls here.* | wc -l) = 64 ]; do sleep 0.1; done; echo met";

    let said = join_all((0..64).map(|_| bench.print(meet))).await;

    assert_eq!(said, vec!["met"; 64]);
    bench.quiet().await;
}

#[tokio::test]
async fn hooks_are_counted_while_they_run() {
    let bench = Bench::new();
    let hook = bench.hook("touch here; until [ -e enough ]; do sleep 0.1; done");

    let call = bench.call(&*hook, b"{}".to_vec());
    let look = async {
        until(|| bench.file("here").exists().then_some(())).await;
        let alive = bench.toolbox.alive.get();
        fs::write(bench.file("enough"), "").unwrap();
        alive
    };
    let (answer, alive) = tokio::join!(call, look);

    assert_eq!((answer.unwrap().status, alive), (HookStatus::Ok, 1));
    bench.quiet().await;
}

#[tokio::test]
async fn a_call_dropped_before_its_turn_starts_nothing() {
    let mut bench = Bench::new();
    bench.toolbox.places = places(0);

    let waited = timeout(Duration::from_millis(50), bench.run("touch here")).await;
    bench.toolbox.places.resize(1);

    assert!(waited.is_err());
    assert_eq!(bench.print("ls").await, "");
    assert!(!bench.file("here").exists());
}

#[test]
fn a_hooks_variables_are_not_shown() {
    let bench = Bench::new();
    let hook = bench.hook_with(json!({"command": "true", "env": {"KEY": "hush"}}));

    let shown = format!("{hook:?}");
    assert!(shown.contains(r#"shell: Shell("true"),"#), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
}

/// Runs the manual's example in `language` on an event.
async fn run_example(language: &str, interpreter: &str, event: Value) -> Answer {
    let bench = Bench::new();
    let manual = fs::read_to_string("docs/hooks.md").unwrap();
    let (_, example) = manual.split_once(&format!("```{language}\n#!")).unwrap();
    let (example, _) = example.split_once("```").unwrap();
    fs::write(bench.file("example"), format!("#!{example}")).unwrap();
    let hook = bench.hook(&format!("{interpreter} example"));

    bench.call(&*hook, event.to_string().into()).await.unwrap()
}

fn prompt(text: &str) -> Value {
    json!({"llm_request": {"model": "m", "config": {}, "messages": [
        {"role": "model", "content": "Hi."},
        {"role": "user", "content": text},
    ]}})
}

/// The other examples run where their interpreter is.
fn is_installed(interpreter: &str) -> bool {
    let run = std::process::Command::new(interpreter)
        .arg("--version")
        .output();
    run.is_ok_and(|it| it.status.success())
}

#[tokio::test]
async fn the_manuals_bash_example_works() {
    let write = |file| json!({"tool_name": "write_file", "tool_input": {"file_path": file}});

    let refused = run_example("bash", "bash", write("a/.env")).await;
    let allowed = run_example("bash", "bash", write("a/env.md")).await;

    let denial = HookOutput::denial("files named .env are not for agents");
    assert_eq!(refused.output, denial);
    assert_eq!(allowed.output, HookOutput::default());
}

#[tokio::test]
async fn the_manuals_python_example_works() {
    if !is_installed("python3") {
        return;
    }

    let masked = run_example("python", "python3", prompt("to a.b@example.com!")).await;
    let untouched = run_example("python", "python3", prompt("to whom?")).await;

    let request = masked.output.specific("llm_request").unwrap();
    assert_eq!(request["messages"][0]["content"], "Hi.");
    assert_eq!(request["messages"][1]["content"], "to [e-mail]!");
    assert_eq!(untouched.output, HookOutput::default());
}

#[tokio::test]
async fn the_manuals_javascript_example_works() {
    if !is_installed("node") {
        return;
    }

    let plan = run_example("js", "node", prompt("make a Plan")).await;
    let other = run_example("js", "node", prompt("make an aeroplane")).await;

    assert_eq!(
        plan.output.specific("toolConfig"),
        Some(&json!({"mode": "AUTO", "allowedFunctionNames": ["read_file", "glob"]}))
    );
    assert_eq!(plan.status, HookStatus::Ok);
    assert_eq!(other.output, HookOutput::default());
}

/// How often this thread has met memory that it had to be given first, or anew.
fn page_faults() -> u64 {
    let stat = fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    fields.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn a_start_copies_no_table_of_memory() {
    // A fork marks all memory as shared, so that whoever writes into it next is
    // given a copy of each page.
    let bench = Bench::new();
    let runtime = Runtime::new().unwrap();
    let hook = bench.hook("echo '{}'");
    let mut held = vec![1_u8; 64 * MIB];
    let mut fewest = u64::MAX;

    // Other tests may fork meanwhile, but hardly each time.
    for round in 0..5 {
        runtime.block_on(bench.call(&*hook, Vec::new())).unwrap();
        let before = page_faults();
        held.iter_mut().step_by(4096).for_each(|it| *it = round);
        fewest = fewest.min(page_faults() - before);
    }

    assert!(fewest < 16, "{fewest} pages were copied");
}
