//! Memory and latency of streams: `just bench-streams`.
//!
//! Runs `hookgate mock` and `hookgate serve` as processes and reads the gateway's
//! memory from `/proc` during one long stream and while a thousand streams are idle.
//! Fails if a bound is exceeded. Then it prints the latency of the first chunk and of
//! each further one with masking, beside the mock itself and a gateway without hooks,
//! in alternation.

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

/// Checks that the memory does not grow with the chunks of a stream.
fn long_stream() -> Result<bool> {
    let mock = Process::start(&["mock", "--chunks", CHUNKS, "--chunk-bytes", CHUNK_BYTES])?;
    let gateway = Process::serve(&mock)?;
    // Warm-up: the first stream starts threads, connections and pools.
    drain(open_stream(&gateway.addr)?)?;
    let before = gateway.memory("VmRSS:")?;
    let started = Instant::now();
    let bytes = drain(open_stream(&gateway.addr)?)?;
    let elapsed = started.elapsed();
    let (after, peak) = (gateway.memory("VmRSS:")?, gateway.memory("VmHWM:")?);
    println!(
        "one stream of {CHUNKS} chunks, {} KiB in {} ms: {before} KiB before, {after} KiB after, {peak} KiB at most",
        bytes / 1024,
        elapsed.as_millis(),
    );
    let bound = before + MAX_LONG_STREAM_KIB;
    Ok(is_within("at most", peak, bound) && is_within("after", after, bound))
}

/// Config of a policy that inspects every text of a response.
const REDACT_CONFIG: &str = "policies: [{ policy: redact }]";

/// Streams of each source.
const ROUNDS: usize = 20;

/// Prints the latency of chunks with masking, without hooks, and from the mock.
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
    fs::write(&config, format!("{upstreams}\n{admin}\n{REDACT_CONFIG}\n"))?;
    let masking = Process::start(&["serve", "--config", &config.to_string_lossy()])?;
    let mut sources = [
        ("the mock itself", &mock, Arrivals::default()),
        ("a gateway without hooks", &idle, Arrivals::default()),
        ("a gateway that masks", &masking, Arrivals::default()),
    ];
    for _ in 0..ROUNDS {
        for (_, process, arrivals) in &mut sources {
            arrivals.measure_stream(&process.addr)?;
        }
    }
    println!("chunks of {CHUNK_BYTES} bytes, 2 ms apart: first, next (median, maximum)");
    for (name, _, arrivals) in sources {
        println!(
            "{name:<24} {}, {}",
            median_and_max(arrivals.first),
            median_and_max(arrivals.next)
        );
    }
    Ok(())
}

/// Latency of chunks: of the first one since the call, of each further one since the
/// previous one.
#[derive(Default)]
struct Arrivals {
    first: Vec<Duration>,
    next: Vec<Duration>,
}

impl Arrivals {
    fn measure_stream(&mut self, addr: &str) -> Result<()> {
        let mut last = Instant::now();
        let mut first = true;
        for line in BufReader::new(open_stream(addr)?).lines() {
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

/// Formats the median and the maximum.
fn median_and_max(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let max = times.last().copied().unwrap_or_default();
    format!("{median:.2?} {max:.2?}")
}

/// Checks the memory of streams without a first chunk.
fn idle_streams() -> Result<bool> {
    let mock = Process::start(&["mock", "--interval", "3600000"])?;
    let gateway = Process::serve(&mock)?;
    let first = open_stream(&gateway.addr)?;
    let before = gateway.memory("VmRSS:")?;
    let streams = (0..IDLE_STREAMS).map(|_| open_stream(&gateway.addr));
    let streams: Vec<TcpStream> = streams.collect::<Result<_>>()?;
    let after = gateway.memory("VmRSS:")?;
    drop((first, streams));
    let each = after.saturating_sub(before) / IDLE_STREAMS;
    println!(
        "{IDLE_STREAMS} idle streams: {before} KiB before, {after} KiB with them, {each} KiB each"
    );
    Ok(is_within("each", each, MAX_IDLE_STREAM_KIB))
}

fn is_within(name: &str, kib: u64, bound: u64) -> bool {
    let is_met = kib <= bound;
    if !is_met {
        println!("bound exceeded: {kib} KiB {name}, at most {bound} KiB");
    }
    is_met
}

/// Requests a stream and reads the head of its response.
fn open_stream(addr: &str) -> Result<TcpStream> {
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

/// Reads a stream to its end, which must be complete. Returns the number of bytes.
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
        return Err("the stream was truncated".into());
    }
    Ok(total)
}

/// A running command of hookgate, killed on drop.
struct Process {
    child: Child,
    /// Address of its listener.
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
        // Reads further output, so that the process never blocks.
        thread::spawn(move || io::copy(&mut lines, &mut io::sink()));
        Ok(process)
    }

    /// A field of its `/proc` status in KiB.
    fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        Ok(number.ok_or("no such line")?.parse()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
