//! The thread that evaluates exchanges, within its share of the CPU.

use std::{
    collections::{HashMap, VecDeque},
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{self, Runtime},
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{Dispatch, dispatcher, subscriber::NoSubscriber};

use super::{collection::Collection, cpu_pace::CpuPace, evaluator::ExchangeEvaluator};
use crate::{
    config::{Config, CpuShare, ShadowHooks},
    mutex::Mutex,
    observe::Metrics,
    replay::{ReplayConfigs, ReplayedHooks, Replayer, SessionOrder},
};

/// Longest evaluation of one exchange, in which hooks with `shadow: true` may run.
pub(super) const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time between two looks for exchanges that wait for a lost one.
const LOST_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Time to evaluate the exchanges that wait for earlier ones, at the end.
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// Time to build the gateway.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Priority of the thread, from -20 to 19: every other thread goes first.
const LOWEST_PRIORITY: i32 = 19;

/// Reason why a shadow ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndReason {
    /// Its time is over.
    Until,
    /// An operator ended or replaced it.
    Operator,
    /// Another config is in use.
    Reload,
    /// The gateway shuts down.
    Shutdown,
    /// The config made the thread panic.
    Panic,
    /// An exchange took too long.
    Deadline,
    /// It cannot be started.
    Failed,
}

impl EndReason {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Until => "until",
            Self::Operator => "operator",
            Self::Reload => "reload",
            Self::Shutdown => "shutdown",
            Self::Panic => "panic",
            Self::Deadline => "deadline",
            Self::Failed => "failed",
        }
    }

    /// Returns whether the config, not an operator or the time, caused the end.
    pub(super) const fn is_failure(self) -> bool {
        matches!(self, Self::Panic | Self::Deadline | Self::Failed)
    }
}

/// A thread that evaluates exchanges.
pub(super) struct Worker {
    pub(super) replayer: Arc<Replayer>,
    pub(super) activity: Arc<Activity>,
    /// Interrupts an evaluation at its next await.
    pub(super) cancel: CancellationToken,
    /// Its end. An error after a panic.
    pub(super) ended: oneshot::Receiver<EndReason>,
}

/// Inputs for the start of a worker thread.
pub(super) struct WorkerPlan {
    pub(super) config: Config,
    pub(super) collection: Collection,
    /// Time after which an exchange that others wait for is lost.
    pub(super) lost_after: Duration,
    pub(super) metrics: Arc<Metrics>,
}

/// The time since which a thread evaluates the present exchange; `None` without one.
#[derive(Debug, Default)]
pub(super) struct Activity(Mutex<Option<Instant>>);

impl Worker {
    /// Starts a thread, which first builds the gateway of the config.
    ///
    /// # Errors
    ///
    /// Returns the reason why it cannot evaluate.
    pub(super) async fn start(plan: WorkerPlan) -> Result<Self, String> {
        let (ready, is_ready) = oneshot::channel();
        let (cancel, activity) = (CancellationToken::new(), Arc::<Activity>::default());
        let (its_cancel, its_activity) = (cancel.clone(), Arc::clone(&activity));
        let ended = spawn(move |runtime| {
            runtime.block_on(run_worker(plan, ready, &its_cancel, &its_activity))
        });
        let ended = ended.map_err(|error| error.to_string())?;
        // It also ends if this future is dropped.
        let cancel = cancel.drop_guard();
        match timeout(START_TIMEOUT, is_ready).await {
            Ok(Ok(replayer)) => Ok(Self {
                replayer: replayer?,
                activity,
                cancel: cancel.disarm(),
                ended,
            }),
            Ok(Err(_panicked)) => Err("the config cannot be built".to_owned()),
            Err(_elapsed) => Err("the config cannot be built in time".to_owned()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Activity {
    /// Returns the time since which the present exchange is evaluated.
    pub(super) fn busy(&self) -> Duration {
        let since = *self.0.lock();
        since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn begin(&self) {
        *self.0.lock() = Some(Instant::now());
    }

    fn end(&self) {
        *self.0.lock() = None;
    }
}

/// Runs a function with a runtime of its own on a thread of the lowest priority.
fn spawn(
    run: impl FnOnce(&Runtime) -> EndReason + Send + 'static,
) -> io::Result<oneshot::Receiver<EndReason>> {
    let mut runtime = runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build()?;
    let (end, ended) = oneshot::channel();
    let run = move || {
        // Evaluated calls are not logged. The decision log has their sums.
        // Not `Dispatch::none()`, which is in no list of subscribers: a log statement that this
        // thread were the first to reach would be disabled for all threads.
        let _quiet = dispatcher::set_default(&Dispatch::new(NoSubscriber::default()));
        lower_priority();
        let reason = run(&runtime);
        // Hook processes end with the runtime.
        runtime.shutdown_background();
        // Nothing waits for a thread that was given up.
        end.send(reason).ok();
    };
    let thread = thread::Builder::new().name("shadow".to_owned());
    thread.spawn(run)?;
    Ok(ended)
}

async fn run_worker(
    plan: WorkerPlan,
    ready: oneshot::Sender<Result<Arc<Replayer>, String>>,
    cancel: &CancellationToken,
    activity: &Activity,
) -> EndReason {
    let hooks = match plan.collection.settings.hooks {
        ShadowHooks::Policies => ReplayedHooks::Policies,
        ShadowHooks::Recorded => ReplayedHooks::Recorded,
    };
    let configs = ReplayConfigs {
        after: plan.config,
        before: None,
        hooks,
    };
    let replayer = match Box::pin(Replayer::new(configs, Arc::default())).await {
        Ok(replayer) => Arc::new(replayer),
        Err(error) => {
            ready.send(Err(error.to_string())).ok();
            return EndReason::Failed;
        }
    };
    let budget = plan.collection.settings.budget;
    ready.send(Ok(Arc::clone(&replayer))).ok();
    let mut queue = plan.collection.queue;
    let mut evaluator = ExchangeEvaluator {
        replayer,
        order: SessionOrder::default(),
        collector: plan.collection.collector,
        max_bytes: budget.memory,
        lost_after: plan.lost_after,
        metrics: Arc::clone(&plan.metrics),
        ready: VecDeque::new(),
        held: HashMap::new(),
    };
    let evaluated = async |next| evaluator.evaluate(next).await;
    work(&mut queue, budget.cpu, cancel, activity, evaluated).await;
    plan.metrics.shadow_dropped.inc_by(queue.len() as u64);
    if activity.busy() < EXCHANGE_TIMEOUT {
        // A rest that takes longer is not evaluated.
        timeout(REST_TIMEOUT, evaluator.evaluate_rest()).await.ok();
    }
    // That whose evaluation was interrupted, and those that still wait for it.
    plan.metrics
        .shadow_dropped
        .inc_by(evaluator.held.len() as u64);
    // The task has a reason of its own if it has cancelled the work.
    EndReason::Failed
}

/// Evaluates what is in a queue, one after the other, until the queue closes. `evaluate` is called
/// with `None` while it returns that there is more to evaluate, and now and then while the queue
/// is empty.
async fn work<T>(
    queue: &mut mpsc::Receiver<T>,
    share: CpuShare,
    cancel: &CancellationToken,
    activity: &Activity,
    mut evaluate: impl AsyncFnMut(Option<T>) -> bool,
) {
    let mut pace = CpuPace::new(share);
    let mut has_more = false;
    loop {
        let mut next = None;
        if !has_more {
            let received = timeout(LOST_CHECK_INTERVAL, queue.recv());
            next = match cancel.run_until_cancelled(received).await {
                None | Some(Ok(None)) => break,
                Some(Ok(next)) => next,
                Some(Err(_elapsed)) => None,
            };
        }
        activity.begin();
        pace.begin();
        match cancel.run_until_cancelled(evaluate(next)).await {
            None => break,
            Some(more) => has_more = more,
        }
        activity.end();
        let pause = pace.pause();
        if !pause.is_zero() && cancel.run_until_cancelled(sleep(pause)).await.is_none() {
            break;
        }
    }
}

/// Lets all other threads go first.
fn lower_priority() {
    // On Linux, this is the priority of the calling thread alone. Without it, the share of the
    // CPU is kept nonetheless.
    if cfg!(target_os = "linux") {
        rustix::process::setpriority_process(None, LOWEST_PRIORITY).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: CpuShare = CpuShare(100);

    fn queue(items: &[u32]) -> mpsc::Receiver<u32> {
        let (sender, queue) = mpsc::channel(8);
        for item in items {
            sender.try_send(*item).unwrap();
        }
        queue
    }

    #[tokio::test]
    async fn a_panic_ends_the_thread_and_nothing_else() {
        let ended = spawn(|_runtime| panic!("of a test")).unwrap();

        assert!(ended.await.is_err());
    }

    #[tokio::test]
    async fn an_evaluation_that_never_yields_is_seen_from_outside() {
        let (cancel, activity) = (CancellationToken::new(), Arc::<Activity>::default());
        let shared = Arc::clone(&activity);
        let mut watcher = Some(thread::spawn(move || {
            let started = Instant::now();
            while shared.busy() < Duration::from_millis(50) {
                assert!(started.elapsed() < EXCHANGE_TIMEOUT, "nothing is evaluated");
                thread::sleep(Duration::from_millis(1));
            }
        }));
        let mut seen = Ok(());
        let evaluate = async |_item| {
            seen = watcher.take().map_or(Ok(()), thread::JoinHandle::join);
            false
        };

        let mut items = queue(&[1]);
        work(&mut items, SHARE, &cancel, &activity, evaluate).await;

        assert!(seen.is_ok());
        assert_eq!(activity.busy(), Duration::ZERO);
    }

    #[tokio::test]
    async fn a_cancelled_worker_ends_within_an_evaluation() {
        let (cancel, activity) = (CancellationToken::new(), Activity::default());
        let evaluate = async |_item| {
            cancel.cancel();
            std::future::pending().await
        };

        let mut items = queue(&[1, 2]);
        work(&mut items, SHARE, &cancel, &activity, evaluate).await;

        assert_eq!(items.len(), 1);
    }
}
