//! A Redis server of a test.

use std::{
    io::{Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::TEST_TIMEOUT;

/// A Redis server on a free port. Killed when dropped.
pub struct Redis {
    port: u16,
    folder: TempDir,
    child: Child,
    more: Vec<String>,
}

impl Redis {
    /// Starts a server without persistence.
    pub fn start() -> Self {
        Self::with(&["--save", ""])
    }

    /// Starts a server with these options. Its data folder survives [`Self::restart`].
    pub fn with(options: &[&str]) -> Self {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let folder = TempDir::new().unwrap();
        let more: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        Self {
            child: serve(port, &folder, &more),
            port,
            folder,
            more,
        }
    }

    /// Returns the URL of the server.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Kills the server and waits for its end.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the server again on the same port.
    pub fn restart(&mut self) {
        self.child = serve(self.port, &self.folder, &self.more);
    }

    /// Suspends the server: connections are accepted, but nothing is answered.
    pub fn hang(&self) {
        self.signal(Signal::STOP);
    }

    /// Resumes the suspended server.
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Sends a command whose arguments contain no spaces. Returns the raw response.
    pub fn ask(&self, command: &str) -> String {
        ask(self.port, command).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = Pid::from_raw(self.child.id().cast_signed()).unwrap();
        kill_process(id, signal).unwrap();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn serve(port: u16, folder: &TempDir, more: &[String]) -> Child {
    let child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .arg("--dir")
        .arg(folder.path())
        .args(more)
        .stdout(Stdio::null())
        .spawn();
    let child = child.expect("these tests need `redis-server` (Debian: apt install redis-server)");
    let deadline = Instant::now() + TEST_TIMEOUT;
    // It answers something, `NOAUTH` and `LOADING` included.
    while ask(port, "PING").is_none_or(|answer| answer.starts_with("-LOADING")) {
        assert!(Instant::now() < deadline, "redis-server does not answer");
        thread::sleep(Duration::from_millis(10));
    }
    child
}

fn ask(port: u16, command: &str) -> Option<String> {
    let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    socket.set_read_timeout(Some(TEST_TIMEOUT)).ok()?;
    socket
        .write_all(format!("{command}\r\nQUIT\r\n").as_bytes())
        .ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer).into_owned())
}
