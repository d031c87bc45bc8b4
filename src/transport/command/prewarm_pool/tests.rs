use std::{collections::BTreeMap, path::Path};

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::*;
use crate::{
    config::AnswerBy,
    protocol::Ended,
    transport::{ProcessSlots, TransportDeps, TransportError, shell::Shell},
};

/// One spare of a hook that prints its process's number, which waits for so
/// long; and where it runs.
fn spares(folder: &Path, longest_wait: Duration) -> (Spares, TransportDeps) {
    let places = Arc::new(ProcessSlots::default());
    places.resize(2);
    let directory = folder.to_owned();
    let toolbox = TransportDeps::new(TaskTracker::new(), places, Gauge::default(), 100, directory);
    let toolbox = toolbox.unwrap();
    let command = "echo $$ >> starts; read -r _; echo $$".to_owned();
    let shell = Shell::new(command, BTreeMap::new(), "hook", &toolbox).unwrap();
    let employer = Employer {
        shell,
        answer_by: AnswerBy::default(),
        closed: CancellationToken::new(),
    };
    let spares = Spares::waiting(&Arc::new(employer), NonZero::<u32>::MIN, longest_wait);
    (spares, toolbox)
}

fn job(told: oneshot::Sender<Result<Ended, TransportError>>) -> Job {
    Job {
        input: "{}\n".into(),
        deadline: Instant::now() + LONGEST_WAIT,
        told,
    }
}

/// Hands it a job until a spare takes it; what that printed.
async fn ask(spares: &Spares) -> String {
    loop {
        let (told, ended) = oneshot::channel();
        let is_handed = spares.hand(job(told)).is_ok();
        match ended.await {
            Ok(ended) => return String::from_utf8(ended.unwrap().stdout).unwrap(),
            Err(_) if is_handed => (),
            Err(_) => sleep(Duration::from_millis(1)).await,
        }
    }
}

#[tokio::test]
async fn spares_that_have_waited_long_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let longest_wait = Duration::from_millis(200);
    let (spares, toolbox) = spares(folder.path(), longest_wait);
    let starts = || std::fs::read_to_string(folder.path().join("starts")).unwrap_or_default();
    spares.begin();
    let begun = Instant::now();

    while starts().lines().count() < 4 {
        sleep(Duration::from_millis(5)).await;
    }
    let waited = begun.elapsed();
    let printed = ask(&spares).await;

    assert!(waited >= 3 * longest_wait, "{waited:?}");
    let starts = starts();
    let old: Vec<&str> = starts.lines().take(3).collect();
    assert!(!old.contains(&printed.trim()), "{printed} of {starts}");
    spares.stock.employer.closed.cancel();
    toolbox.tasks.close();
    toolbox.tasks.wait().await;
    assert_eq!(toolbox.alive.get(), 0);
}

#[tokio::test]
async fn nothing_starts_before_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let (spares, toolbox) = spares(folder.path(), LONGEST_WAIT);
    let (told, _ended) = oneshot::channel();

    assert!(spares.hand(job(told)).is_err());

    // Once begun is begun.
    spares.begin();
    spares.begin();
    assert_eq!(toolbox.tasks.len(), 1);
    assert!(!ask(&spares).await.is_empty());
}
