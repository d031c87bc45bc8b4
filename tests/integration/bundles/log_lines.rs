//! Log lines of replicas.

use std::time::Instant;

use super::{
    replicas::{Replica, server_with, source},
    server::{PolicyServer, Polling, Publisher},
};
use crate::harness::TEST_TIMEOUT;

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
