//! The proofs of all guards of a config.

use futures_util::{StreamExt, future::BoxFuture, stream};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    case::GuardCase,
    case_file,
    expectation::Expectation,
    guard_proof::{CaseSelection, GuardProof, GuardStatus, ProofScope},
};
use crate::{
    config::{Config, Problem, ProofCases, ProofEntry},
    event::RuleId,
    hook::{Engine, Guard, HookTable},
};

/// Guards that are proven at the same time.
const MAX_CONCURRENT_PROOFS: usize = 8;

/// The proofs of all guards of a config, with their last results.
#[derive(Debug)]
pub struct GuardProofs {
    proofs: Vec<GuardProof>,
    /// Cancelled when the config is replaced.
    replaced: CancellationToken,
}

impl GuardProofs {
    /// Parses the cases of all guards.
    ///
    /// # Errors
    ///
    /// Returns all problems of cases.
    pub fn build(table: &HookTable) -> Result<Self, Vec<Problem>> {
        let (mut proofs, mut problems) = (Vec::new(), Vec::new());
        for guard in Guard::all(table) {
            let mut cases = Vec::new();
            for found in read_cases(guard.cases()) {
                match found {
                    Ok(case) => cases.push(case),
                    Err(problem) => problems.push(Problem {
                        message: format!("{guard}: {}", problem.message),
                        ..problem
                    }),
                }
            }
            proofs.push(GuardProof::new(guard, cases));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            proofs,
            replaced: CancellationToken::new(),
        })
    }

    /// Returns whether no guard has cases.
    pub const fn is_empty(&self) -> bool {
        self.proofs.is_empty()
    }

    /// Runs all cases of all guards and keeps the results.
    ///
    /// Dropping the future ends the processes of guards.
    ///
    /// # Errors
    ///
    /// Returns all problems, in the order of files and lines. Nothing is kept then.
    pub async fn prove_all(
        &self,
        engine: &Engine,
        config: &Config,
        timestamp: &str,
    ) -> Result<(), Vec<Problem>> {
        let scope = ProofScope {
            engine,
            config,
            timestamp,
            end: Some(Instant::now() + config.proof.total_timeout),
        };
        let results = self.run(scope, CaseSelection::All).await;
        let mut problems: Vec<Problem> = results.into_iter().flatten().collect();
        if problems.is_empty() {
            for proof in &self.proofs {
                proof.record(&[], timestamp);
            }
            return Ok(());
        }
        problems.sort_by_key(|problem| problem.span.clone());
        Err(problems)
    }

    /// Proves all guards once more and keeps the results. Of guards that start a process
    /// for each case, one case of each list runs, or all if the last proof failed.
    pub async fn prove_again(&self, engine: &Engine, config: &Config, timestamp: &str) {
        let scope = ProofScope {
            engine,
            config,
            timestamp,
            end: None,
        };
        let results = self.run(scope, CaseSelection::InTurn).await;
        for (proof, problems) in self.proofs.iter().zip(results) {
            proof.record(&problems, timestamp);
        }
    }

    /// Returns the result of each guard's last proof, in the order in which guards run.
    pub fn statuses(&self) -> impl Iterator<Item = GuardStatus> {
        self.proofs.iter().map(GuardProof::status)
    }

    /// Returns the result of the last proof of a policy or hook, if it has cases.
    pub fn of_rule(&self, rule: RuleId) -> Option<GuardStatus> {
        let found = self.proofs.iter().find(|proof| proof.guard.rule() == rule);
        found.map(GuardProof::status)
    }

    /// Returns the names of guards whose last proof failed.
    pub fn unproven(&self) -> Vec<&str> {
        let unproven = self.proofs.iter().filter(|proof| !proof.is_proven());
        unproven.map(|proof| proof.guard.name()).collect()
    }

    /// Ends proofs, because another config is in use.
    pub fn stop(&self) {
        self.replaced.cancel();
    }

    /// Returns the token that is cancelled when the config is replaced.
    pub fn replaced(&self) -> CancellationToken {
        self.replaced.clone()
    }

    async fn run(&self, scope: ProofScope<'_>, selection: CaseSelection) -> Vec<Vec<Problem>> {
        let mut runs: Vec<BoxFuture<'_, Vec<Problem>>> = Vec::new();
        for proof in &self.proofs {
            runs.push(Box::pin(proof.run(scope, selection)));
        }
        stream::iter(runs)
            .buffered(MAX_CONCURRENT_PROOFS)
            .collect()
            .await
    }
}

/// Parses the cases of one guard.
fn read_cases(cases: &ProofCases) -> Vec<Result<GuardCase, Problem>> {
    let lists = [
        (&cases.must_deny, Expectation::Deny),
        (&cases.must_allow, Expectation::Allow),
        (&cases.must_mask, Expectation::Mask),
    ];
    let mut read = Vec::new();
    for (entries, expectation) in lists {
        for entry in entries {
            match entry {
                ProofEntry::Case(case) => read.push(GuardCase::new(case, expectation)),
                ProofEntry::File { path, text, span } => {
                    read.extend(case_file::read(path, text.as_deref(), span, expectation));
                }
            }
        }
    }
    read
}
