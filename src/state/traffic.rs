//! Calls of the last minute and day, by method, and refused paths.

use std::{num::NonZeroUsize, time::Instant};

use jiff::Timestamp;
use lru::LruCache;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    dialect::{self, MethodSpec},
    mutex::Mutex,
    observe::{HourlyCounts, TimeBuckets},
    timestamp::rfc3339,
};

/// Unknown paths that are kept; beyond it the least recently requested is dropped.
const MAX_UNKNOWN_PATHS: NonZeroUsize = NonZeroUsize::new(200).unwrap();

/// Characters of a path and of a caller's name that are kept.
const MAX_NAME_CHARS: usize = 128;

/// Calls of the last minute and day.
#[derive(Debug)]
pub struct Traffic {
    calls: TimeBuckets<60, 1>,
    /// One for each row of the method tables, in their order.
    methods: Vec<HourlyCounts>,
    unknown: Mutex<LruCache<(String, String), UnknownCount>>,
}

/// Requests for a path that no method has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct UnknownPath {
    /// Name of the caller; empty without authentication.
    pub caller: String,
    /// HTTP method and path, truncated.
    pub path: String,
    /// Number of these requests.
    pub requests: u64,
    /// Time of the last request: RFC 3339 in UTC.
    pub last: String,
}

#[derive(Debug, Clone, Copy)]
struct UnknownCount {
    requests: u64,
    last: Timestamp,
}

impl Default for Traffic {
    fn default() -> Self {
        let methods = dialect::methods().map(|_| HourlyCounts::default());
        Self {
            calls: TimeBuckets::default(),
            methods: methods.collect(),
            unknown: Mutex::new(LruCache::new(MAX_UNKNOWN_PATHS)),
        }
    }
}

impl Traffic {
    /// Counts a call of a method, whether it is served or refused.
    pub fn count(&self, method: &MethodSpec) {
        let now = Instant::now();
        self.calls.add(now);
        if let Some(buckets) = self.buckets(method) {
            buckets.add(now);
        }
    }

    /// Counts a request for a path that no method has.
    pub fn count_unknown(&self, caller: &str, method: &str, path: &str) {
        self.calls.add(Instant::now());
        let path = format!("{method} {path}");
        let key = (truncated(caller), truncated(&path));
        let mut unknown = self.unknown.lock();
        let count = unknown.get_or_insert_mut(key, || UnknownCount {
            requests: 0,
            last: Timestamp::UNIX_EPOCH,
        });
        count.requests += 1;
        count.last = Timestamp::now();
    }

    /// Returns the calls per second, averaged over the last minute.
    pub fn calls_per_second(&self) -> f64 {
        let now = Instant::now();
        let calls = u32::try_from(self.calls.sum(now)).unwrap_or(u32::MAX);
        f64::from(calls) / self.calls.covered(now).as_secs_f64().max(1.0)
    }

    /// Returns the calls of a method in the last 24 hours, counted by the hour.
    pub fn of_method(&self, method: &MethodSpec) -> u64 {
        let buckets = self.buckets(method);
        buckets.map_or(0, |buckets| buckets.sum(Instant::now()))
    }

    /// Returns the paths that no method has, the most recently requested first.
    pub fn unknown_paths(&self) -> Vec<UnknownPath> {
        let unknown = self.unknown.lock();
        let paths = unknown.iter().map(|((caller, path), count)| UnknownPath {
            caller: caller.clone(),
            path: path.clone(),
            requests: count.requests,
            last: rfc3339(count.last),
        });
        paths.collect()
    }

    fn buckets(&self, method: &MethodSpec) -> Option<&HourlyCounts> {
        let is_same = |row: &MethodSpec| {
            (row.api, row.method, row.path) == (method.api, method.method, method.path)
        };
        let position = dialect::methods().position(is_same)?;
        self.methods.get(position)
    }
}

fn truncated(name: &str) -> String {
    name.chars().take(MAX_NAME_CHARS).collect()
}
