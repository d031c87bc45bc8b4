//! Memory and latency of streams: `just bench-streams`.
//!
//! Runs `hookgate mock` and `hookgate serve` as processes and reads the gateway's
//! memory from `/proc` while one long stream passes and while a thousand streams
//! are idle. Fails when a bound is exceeded. Then it prints how much later an agent
//! gets the first chunk and each further one when secrets are masked, beside the
//! mock itself and a gateway without hooks, in turns.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    env,
    error::Error,
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{self, Child, Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Chunks of the long stream, and the bytes of text in each.
const CHUNKS: &str = "10000";
const CHUNK_BYTES: &str = "300";

/// Maximum growth of the gateway's memory during the long stream.
const MAX_LONG_STREAM_KIB: u64 = 2048;

const IDLE_STREAMS: u64 = 1000;

/// Maximum memory of one idle stream.
const MAX_IDLE_STREAM_KIB: u64 = 100;

const READ_TIMEOUT: Duration = Duration::from_mins(1);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<bool> {
    let long = long_stream()?;
    let idle = idle_streams()?;
    masked_streams()?;
    Ok(long && idle)
}

/// Ten thousand chunks must leave no trace: nothing of them is kept.
fn long_stream() -> Result<bool> {
    let mock = Process::start(&["mock", "--chunks", CHUNKS, "--chunk-bytes", CHUNK_BYTES])?;
    let gateway = Process::serve(&mock)?;
    // The first stream pays for threads, connections and pools.
    drain(ask(&gateway.addr)?)?;
    let before = gateway.memory("VmRSS:")?;
    let started = Instant::now();
    let bytes = drain(ask(&gateway.addr)?)?;
    let elapsed = started.elapsed();
    let (after, peak) = (gateway.memory("VmRSS:")?, gateway.memory("VmHWM:")?);
    println!(
        "one stream of {CHUNKS} chunks, {} KiB in {} ms: {before} KiB before, {after} KiB after, {peak} KiB at most",
        bytes / 1024,
        elapsed.as_millis(),
    );
    let bound = before + MAX_LONG_STREAM_KIB;
    Ok(within("at most", peak, bound) && within("after", after, bound))
}

/// A policy that looks at every text of an answer.
const MASKING: &str = "policies: [{ policy: redact }]";

/// Each of them asked so often.
const ROUNDS: usize = 20;

/// When chunks come that are masked on the way, and when others come.
fn masked_streams() -> Result<()> {
    let pace = [
        "--chunks",
        "50",
        "--interval",
        "2",
        "--chunk-bytes",
        CHUNK_BYTES,
    ];
    let mock = Process::start(&[&["mock"], pace.as_slice()].concat())?;
    let idle = Process::serve(&mock)?;
    let folder = env::temp_dir().join(format!("hookgate-streams-{}", process::id()));
    fs::create_dir_all(&folder)?;
    let config = folder.join("hookgate.yaml");
    let upstreams = format!("upstreams: {{ gemini: {{ url: 'http://{}' }} }}", mock.addr);
    let admin = "admin: { listen: '127.0.0.1:0' }";
    fs::write(&config, format!("{upstreams}\n{admin}\n{MASKING}\n"))?;
    let masking = Process::start(&["serve", "--config", &config.to_string_lossy()])?;
    let mut asked = [
        ("the mock itself", &mock, Arrivals::default()),
        ("a gateway without hooks", &idle, Arrivals::default()),
        ("a gateway that masks", &masking, Arrivals::default()),
    ];
    for _ in 0..ROUNDS {
        for (_, process, arrivals) in &mut asked {
            arrivals.of_stream(&process.addr)?;
        }
    }
    println!(
        "chunks of {CHUNK_BYTES} bytes, each 2 ms after the one before: first, next (median, most)"
    );
    for (name, _, arrivals) in asked {
        println!(
            "{name:<24} {}, {}",
            shown(arrivals.first),
            shown(arrivals.next)
        );
    }
    Ok(())
}

/// How long chunks took: the first one since the call, each next one since the
/// one before.
#[derive(Default)]
struct Arrivals {
    first: Vec<Duration>,
    next: Vec<Duration>,
}

impl Arrivals {
    fn of_stream(&mut self, addr: &str) -> Result<()> {
        let mut last = Instant::now();
        let mut first = true;
        for line in BufReader::new(ask(addr)?).lines() {
            if !line?.starts_with("data: ") {
                continue;
            }
            let times = if first {
                &mut self.first
            } else {
                &mut self.next
            };
            times.push(last.elapsed());
            (last, first) = (Instant::now(), false);
        }
        Ok(())
    }
}

/// Median and most.
fn shown(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let most = times.last().copied().unwrap_or_default();
    format!("{median:.2?} {most:.2?}")
}

/// Streams whose first chunk does not come.
fn idle_streams() -> Result<bool> {
    let mock = Process::start(&["mock", "--interval", "3600000"])?;
    let gateway = Process::serve(&mock)?;
    let first = ask(&gateway.addr)?;
    let before = gateway.memory("VmRSS:")?;
    let streams = (0..IDLE_STREAMS).map(|_| ask(&gateway.addr));
    let streams: Vec<TcpStream> = streams.collect::<Result<_>>()?;
    let after = gateway.memory("VmRSS:")?;
    drop((first, streams));
    let each = after.saturating_sub(before) / IDLE_STREAMS;
    println!(
        "{IDLE_STREAMS} silent streams: {before} KiB before, {after} KiB with them, {each} KiB each"
    );
    Ok(within("each", each, MAX_IDLE_STREAM_KIB))
}

fn within(what: &str, kib: u64, bound: u64) -> bool {
    let good = kib <= bound;
    if !good {
        println!("too much: {kib} KiB {what}, where {bound} KiB are allowed");
    }
    good
}

/// Asks for a stream and reads the head of the answer.
fn ask(addr: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(addr)?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let body = r#"{"contents":[{"role":"user","parts":[{"text":"hello"}]}]}"#;
    write!(
        stream,
        "POST /v1beta/models/m:streamGenerateContent?alt=sse HTTP/1.1\r\nhost: {addr}\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend_from_slice(&byte);
    }
    if !head.starts_with(b"HTTP/1.1 200") {
        return Err(String::from_utf8_lossy(&head).into());
    }
    Ok(stream)
}

/// Reads to the end, which must be a clean one, and counts the bytes.
fn drain(mut stream: TcpStream) -> Result<u64> {
    let (mut total, mut piece, mut last) = (0, vec![0; 16 * 1024], Vec::new());
    loop {
        let read = stream.read(&mut piece)?;
        let read = piece.get(..read).unwrap_or_default();
        if read.is_empty() {
            break;
        }
        total += u64::try_from(read.len())?;
        last.extend_from_slice(read);
        last.drain(..last.len().saturating_sub(5));
    }
    if last != b"0\r\n\r\n" {
        return Err("the stream broke off".into());
    }
    Ok(total)
}

/// A command of hookgate, under way; killed when dropped.
struct Process {
    child: Child,
    /// Where it listens.
    addr: String,
}

impl Process {
    fn serve(mock: &Self) -> Result<Self> {
        let upstream = format!("http://{}", mock.addr);
        let admin = "--admin-listen=127.0.0.1:0";
        Self::start(&["serve", "--upstream", &upstream, admin])
    }

    fn start(arguments: &[&str]) -> Result<Self> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_hookgate"))
            .args(arguments)
            .args(["--listen", "127.0.0.1:0"])
            .env("HOOKGATE_LOG", "warn")
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("no stdout")?;
        let mut process = Self {
            child,
            addr: String::new(),
        };
        let mut lines = BufReader::new(stdout);
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let addr = line.trim().strip_prefix("listening on http://");
        addr.ok_or("it does not listen")?
            .clone_into(&mut process.addr);
        // Whatever else it prints must not stop it.
        thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
        Ok(process)
    }

    /// A line of its status, in KiB.
    fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|it| it.strip_prefix(name));
        let number = line.and_then(|it| it.split_whitespace().next());
        Ok(number.ok_or("no such line")?.parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already, which is what is wanted.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
