//! A name with several addresses, of which one does not answer.

use std::{fs, net::Ipv4Addr, process::Command};

use tempfile::TempDir;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpSocket, TcpStream},
};

use crate::harness::{Agent, ServerProcess, Upstream, hookgate, prompt};

/// Starts a relay to an upstream at 127.0.0.2. Returns its port.
async fn relay_to(upstream: &Upstream) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), 0));
    let (listener, target) = (listener.await.unwrap(), upstream.addr);
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut agent, _) = listener.accept().await.unwrap();
            let mut upstream = TcpStream::connect(target).await.unwrap();
            tokio::spawn(async move { copy_bidirectional(&mut agent, &mut upstream).await });
        }
    });
    port
}

#[tokio::test]
async fn an_address_that_does_not_answer_leaves_time_for_the_next() {
    let upstream = Upstream::mock().await;
    let port = relay_to(&upstream).await;
    // A full queue of connections: the next one gets no answer.
    let unanswering = TcpSocket::new_v4().unwrap();
    let first = (Ipv4Addr::LOCALHOST, port).into();
    unanswering.bind(first).unwrap();
    let _listener = unanswering.listen(0).unwrap();
    let _queued = TcpStream::connect(first).await.unwrap();
    let folder = TempDir::new().unwrap();
    fs::write(
        folder.path().join("hosts"),
        "127.0.0.1 two.test\n127.0.0.2 two.test\n",
    )
    .unwrap();
    let config = format!(
        "listen: 127.0.0.1:0\nadmin: {{ listen: 127.0.0.1:0 }}\n\
         upstreams: {{ gemini: {{ url: \"http://two.test:{port}\" }} }}\n\
         timeouts: {{ upstream_connect: 2s }}\n"
    );
    fs::write(folder.path().join("hookgate.yaml"), config).unwrap();
    let serve = hookgate(&[]);
    let program = serve.get_program().to_str().unwrap();
    let script =
        format!("mount --bind hosts /etc/hosts && exec {program} serve --config hookgate.yaml");
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "bash", "-c", &script])
        .current_dir(folder.path());
    let mut served = ServerProcess::start(command);

    let answer = Agent::at(served.addr())
        .generate("m", &prompt("hello"))
        .await;

    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(upstream.requests().len(), 1);
    served.terminate();
}
