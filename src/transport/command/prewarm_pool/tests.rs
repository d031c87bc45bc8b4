use std::{collections::BTreeMap, path::Path};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    config::AnswerBy,
    protocol::ProcessOutput,
    transport::{
        deps::TransportDeps, error::TransportError, process_slots::ProcessSlots,
        shell::ShellCommand,
    },
};

/// A pool of one process that prints its id, and the resources it uses.
fn pool(folder: &Path, max_idle_time: Duration) -> (Arc<PrewarmPool>, TransportDeps) {
    let slots = Arc::new(ProcessSlots::default());
    slots.resize(2);
    let directory = folder.to_owned();
    let deps = TransportDeps::new(TaskTracker::new(), slots, Gauge::default(), 100, directory);
    let command = "echo $$ >> starts; read -r _; echo $$".to_owned();
    let shell = ShellCommand::new(command, BTreeMap::new(), "hook", &deps).unwrap();
    let task = ProcessTask {
        shell,
        answer_by: AnswerBy::default(),
        closed: CancellationToken::new(),
    };
    let pool = PrewarmPool {
        max_idle_time,
        ..PrewarmPool::new(&Arc::new(task), NonZero::<u32>::MIN)
    };
    (Arc::new(pool), deps)
}

fn invocation(output: oneshot::Sender<Result<ProcessOutput, TransportError>>) -> HookInvocation {
    HookInvocation {
        input: "{}\n".into(),
        deadline: Instant::now() + MAX_IDLE_TIME,
        output,
    }
}

/// Dispatches invocations until a process takes one; returns its output.
async fn call(pool: &PrewarmPool) -> String {
    loop {
        let (sender, output) = oneshot::channel();
        let is_dispatched = pool.dispatch(invocation(sender)).is_ok();
        match output.await {
            Ok(output) => return String::from_utf8(output.unwrap().stdout).unwrap(),
            Err(_) if is_dispatched => (),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

#[tokio::test]
async fn processes_that_were_idle_for_long_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let max_idle_time = Duration::from_millis(200);
    let (pool, deps) = pool(folder.path(), max_idle_time);
    let starts = || std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
    pool.start();
    let started = Instant::now();

    while starts().lines().count() < 4 {
        sleep(Duration::from_millis(5)).await;
    }
    let elapsed = started.elapsed();
    let printed = call(&pool).await;

    assert!(elapsed >= 3 * max_idle_time, "{elapsed:?}");
    let starts = starts();
    let old: Vec<&str> = starts.lines().take(3).collect();
    assert!(!old.contains(&printed.trim()), "{printed} of {starts}");
    pool.task.closed.cancel();
    deps.tasks.close();
    deps.tasks.wait().await;
    assert_eq!(deps.running.get(), 0);
}

#[tokio::test]
async fn nothing_starts_before_the_pool_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, deps) = pool(folder.path(), MAX_IDLE_TIME);
    let (sender, _output) = oneshot::channel();

    assert!(pool.dispatch(invocation(sender)).is_err());

    // Starting twice starts once.
    pool.start();
    pool.start();
    assert_eq!(deps.tasks.len(), 1);
    assert!(!call(&pool).await.is_empty());
}
