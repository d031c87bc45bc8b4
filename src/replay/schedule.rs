//! Schedule of a replay: calls of one session in order, different sessions in parallel.

use std::{
    hash::{BuildHasher, RandomState},
    io,
    path::PathBuf,
    sync::Arc,
    thread,
};

use jiff::Timestamp;
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{
        OwnedSemaphorePermit, Semaphore,
        mpsc::{self, UnboundedReceiver, UnboundedSender},
    },
};
use tokio_util::task::TaskTracker;

use super::{
    gateway::ReplayedHooks,
    progress::Progress,
    replayer::{ReplayConfigs, Replayer},
    report::{DamageReport, ReplayReport},
    session_order::{OrderedCall, SessionOrder, kib},
};
use crate::{
    recording::{self, Exchanges, ReadError},
    state::BuildError,
};

/// KiB of recorded calls that are in memory at once.
const MAX_QUEUED_KIB: u32 = 64 * 1024;

/// Calls per core that wait for hooks at the same time.
const HOOK_LANES_PER_CORE: usize = 16;

/// A recording, and the part of it to replay.
#[derive(Debug)]
pub struct RecordingSource {
    /// Folder of segments, or one segment.
    pub path: PathBuf,
    /// File with the keys that decrypt it.
    pub identity: Option<PathBuf>,
    /// Time of the first call to replay.
    pub since: Option<Timestamp>,
}

/// Reason why a replay has no report.
#[derive(Debug, Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The decision log cannot be read.
    #[error(transparent)]
    Log(#[from] chained_log::ReadError),
    /// A gateway cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A thread ended early.
    #[error("the replay was interrupted: {0}")]
    Interrupted(#[from] io::Error),
}

/// Replays a recording, on the threads of the present runtime.
///
/// # Errors
///
/// Returns an error if the recording cannot be read, or a gateway cannot be built.
pub async fn replay(
    mut configs: ReplayConfigs,
    recording: RecordingSource,
    progress: Arc<Progress>,
) -> Result<ReplayReport, ReplayError> {
    let exchanges = recording::read(&recording.path, recording.identity.as_deref())?;
    for config in configs.before.iter_mut().chain([&mut configs.after]) {
        config.remove_shadow_hooks();
    }
    let replayer = Box::pin(Replayer::new(configs, Arc::clone(&progress)));
    let replayer = Arc::new(replayer.await?);
    let tasks = TaskTracker::new();
    let lanes = Lanes::start(&replayer, &tasks);
    let runtime = Handle::current();
    let dispatcher = Dispatcher {
        lanes,
        runtime,
        order: SessionOrder::default(),
        damaged: DamageReport::default(),
    };
    let reading = Arc::clone(&progress);
    let since = recording.since;
    let damaged = tasks.spawn_blocking(move || dispatcher.run(exchanges, since, &reading));
    let damaged = damaged.await.map_err(io::Error::from)?;
    tasks.close();
    tasks.wait().await;
    let report = ReplayReport {
        damaged,
        ..replayer.report()
    };
    let Some(replayer) = Arc::into_inner(replayer) else {
        return Err(io::Error::other("a session did not end").into());
    };
    replayer.end().await;
    Ok(report)
}

/// Replays the calls of some sessions, one after the other.
async fn replay_lane(replayer: Arc<Replayer>, mut calls: UnboundedReceiver<QueuedReplay>) {
    while let Some(QueuedReplay { call, permit }) = calls.recv().await {
        replayer.compare(&call).await;
        drop(permit);
    }
}

/// A call that waits for its turn, and the memory that it holds.
struct QueuedReplay {
    call: OrderedCall,
    permit: OwnedSemaphorePermit,
}

/// Tasks that replay calls, each those of some sessions.
struct Lanes {
    senders: Vec<UnboundedSender<QueuedReplay>>,
    hasher: RandomState,
    memory: Arc<Semaphore>,
}

impl Lanes {
    fn start(replayer: &Arc<Replayer>, tasks: &TaskTracker) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let lanes = match replayer.hooks {
            ReplayedHooks::Policies | ReplayedHooks::Recorded => cores,
            ReplayedHooks::Run => cores * HOOK_LANES_PER_CORE,
        };
        let start = |_| {
            let (sender, calls) = mpsc::unbounded_channel();
            tasks.spawn(replay_lane(Arc::clone(replayer), calls));
            sender
        };
        Self {
            senders: (0..lanes).map(start).collect(),
            hasher: RandomState::new(),
            memory: Arc::new(Semaphore::new(MAX_QUEUED_KIB as usize)),
        }
    }

    /// Queues a call. Waits for memory, and for all earlier calls before one that continues the
    /// conversation of another session.
    async fn push(&self, call: OrderedCall) {
        let session = call.exchange.session.as_ref();
        let is_fork = session.is_some_and(|session| session.match_kind == "forked");
        let own = kib(&call.exchange).min(MAX_QUEUED_KIB);
        let kib = if is_fork { MAX_QUEUED_KIB } else { own };
        let memory = Arc::clone(&self.memory);
        let Ok(permit) = memory.acquire_many_owned(kib).await else {
            return;
        };
        let name = session.map_or(&call.exchange.caller, |session| &session.id);
        let hash = usize::try_from(self.hasher.hash_one(name) >> 32).unwrap_or_default();
        let lane = hash.checked_rem(self.senders.len()).unwrap_or_default();
        if let Some(sender) = self.senders.get(lane) {
            // A lane ends with the replay.
            let _ended = sender.send(QueuedReplay { call, permit });
        }
    }
}

/// Reads a recording and queues its calls. Blocks.
struct Dispatcher {
    lanes: Lanes,
    runtime: Handle,
    order: SessionOrder,
    damaged: DamageReport,
}

impl Dispatcher {
    fn run(
        mut self,
        mut exchanges: Exchanges,
        since: Option<Timestamp>,
        progress: &Progress,
    ) -> DamageReport {
        progress.set_segments_left(exchanges.segments_left());
        while let Some(exchange) = exchanges.next() {
            progress.set_segments_left(exchanges.segments_left());
            match exchange {
                Ok(exchange) if is_since(&exchange.time, since) => {
                    let calls = self.order.push(exchange);
                    self.queue(calls);
                }
                Ok(_) => self.damaged.skipped += 1,
                Err(damage) => self.damaged.add(&damage),
            }
        }
        progress.set_segments_left(0);
        let waiting = self.order.finish();
        self.queue(waiting);
        self.damaged
    }

    fn queue(&self, calls: Vec<OrderedCall>) {
        for call in calls {
            self.runtime.block_on(self.lanes.push(call));
        }
    }
}

/// Returns whether a time is not before `since`, if that is given.
pub(super) fn is_since(time: &str, since: Option<Timestamp>) -> bool {
    let Some(since) = since else { return true };
    let time = time.parse::<Timestamp>();
    time.is_ok_and(|time| time >= since)
}
