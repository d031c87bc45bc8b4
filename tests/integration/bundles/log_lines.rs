//! Log lines of replicas.

use std::{fs, time::Instant};

use tempfile::TempDir;

use super::{
    replicas::{Replica, server_with, source},
    server::{PolicyServer, Polling, Publisher, denying_files},
};
use crate::harness::{TEST_TIMEOUT, eventually};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_to_fetch_the_first_bundle_are_logged_once() {
    let publisher = Publisher::new();
    let server = PolicyServer::start(Polling::Short).await;
    let publish = async {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while server.requests().len() < 3 {
            assert!(Instant::now() < deadline, "it does not try again");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        server.publish("prod", publisher.denying("1", "apple"));
    };
    let settings = source(&server, &publisher);
    let started = tokio::spawn(async move { Replica::start(&settings).await });
    publish.await;

    let log = started.await.unwrap().stop().await;

    assert_eq!(log.matches("bundle fetch failed").count(), 1, "{log}");
    assert_eq!(log.matches("bundle fetch recovered").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn test_cases_of_bundles_are_not_logged_as_calls() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    server.publish("prod", publisher.denying("2", "banana"));
    replica.wait_for_revision("2").await;
    assert!(replica.denies("banana").await);

    let log = replica.stop().await;

    assert_eq!(log.matches("exchange finished").count(), 1, "{log}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_stops_ends_the_tests_of_a_bundle() {
    let publisher = Publisher::new();
    let server = server_with(&publisher, "apple").await;
    let replica = Replica::start_from(&server, &publisher).await;
    let folder = TempDir::new().unwrap();
    let ran = folder.path().join("ran");
    let hook = format!(
        "        - {{ name: slow, command: \"touch '{}'; exec sleep 60\" }}\n",
        ran.display()
    );
    let files = denying_files("words", "banana").with("hookgate.yaml", &hook);
    let archive = publisher.signed(publisher.manifest("2"), &files.as_pairs());
    server.publish("prod", archive);
    eventually("the case runs", TEST_TIMEOUT, || fs::exists(&ran).unwrap()).await;

    let log = replica.stop().await;

    assert!(!log.contains("panicked"), "{log}");
    assert!(!log.contains("cannot be reached"), "{log}");
}
