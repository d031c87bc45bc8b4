//! Checks of bundles: their settings, guards and tests.

use std::{path::Path, time::Duration};

use policy_bundle::{BundleError, read_directory};
use thiserror::Error;

use crate::{
    config::{Config, ConfigError, Overrides, PolicyLayer, Problem},
    hook,
    state::{AppResources, BuildError, ReloadError, Snapshot, end_tasks},
    test_case::{self, TestCase},
    trial::{self, AgentHandler, TrialError, run_case},
};

/// Folder with the test cases of a bundle.
const TESTS: &str = "tests";

/// Time for all test cases of all bundles.
const TESTS_TIMEOUT: Duration = Duration::from_mins(5);

/// Reason why bundles are not used.
#[derive(Debug, Error)]
pub enum BundleCheckError {
    /// Problems of the settings, or cases with another outcome than expected.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A case cannot be run.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The test cases cannot be read.
    #[error(transparent)]
    Files(#[from] BundleError),
    /// The test cases take too long.
    #[error("the tests of the bundle take longer than {}s", TESTS_TIMEOUT.as_secs())]
    Timeout,
}

impl From<BundleCheckError> for ReloadError {
    fn from(error: BundleCheckError) -> Self {
        let message = error.to_string();
        match error {
            BundleCheckError::Timeout
            | BundleCheckError::Files(BundleError::Io { .. })
            | BundleCheckError::Trial(TrialError::Io(_) | TrialError::Timeout) => {
                Self::Transient(message)
            }
            BundleCheckError::Config(_)
            | BundleCheckError::Trial(_)
            | BundleCheckError::Files(_) => Self::Rejected(message),
        }
    }
}

/// Loads the policies of bundles, without the config of a gateway and its secrets.
///
/// # Errors
///
/// Returns every problem of the bundles.
pub fn load_layers(layers: Vec<PolicyLayer>) -> Result<Config, ConfigError> {
    let overrides = Overrides {
        layers,
        ..trial::overrides()
    };
    Config::without_file(&overrides, &hook::registry())
}

/// Builds the policies and hooks of a config, and proves its guards. Returns the warnings.
///
/// # Errors
///
/// Returns the problems of those that cannot be built, and the cases that fail.
pub async fn check_guards(config: Config) -> Result<Vec<Problem>, BuildError> {
    let resources = AppResources::default();
    let snapshot = Snapshot::build(config, &resources, None, None)?;
    let proved = snapshot.prove(&resources).await;
    let warnings = snapshot.warnings();
    // Workers end with their snapshot.
    drop(snapshot);
    end_tasks(&resources.tasks).await;
    proved.map(|()| warnings)
}

/// Runs the test cases of all bundles of a config. Returns their number.
///
/// # Errors
///
/// Returns the cases with another outcome than expected, each with its position.
pub async fn run_tests(config: &Config, handler: AgentHandler) -> Result<usize, BundleCheckError> {
    let mut cases = Vec::new();
    for layer in &config.layers {
        cases.extend(read_cases(&layer.directory)?);
    }
    let run = Box::pin(run_cases(config, &cases, handler));
    let problems = tokio::time::timeout(TESTS_TIMEOUT, run).await;
    let problems = problems.map_err(|_elapsed| BundleCheckError::Timeout)??;
    ConfigError::check(problems)?;
    Ok(cases.len())
}

async fn run_cases(
    config: &Config,
    cases: &[TestCase],
    handler: AgentHandler,
) -> Result<Vec<Problem>, TrialError> {
    let mut problems = Vec::new();
    for case in cases {
        let differences = run_case(config, case, handler).await?;
        problems.extend(differences.into_iter().map(|difference| {
            let message = format!("test `{}`: {difference}", case.name);
            Problem::at(&case.span, message)
        }));
    }
    Ok(problems)
}

/// Reads the files of test cases of a bundle.
fn read_cases(directory: &Path) -> Result<Vec<TestCase>, BundleCheckError> {
    let folder = directory.join(TESTS);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut cases = Vec::new();
    for (name, file) in read_directory(&folder)? {
        let extension = Path::new(&name).extension();
        if extension.is_some_and(|extension| extension == "yaml" || extension == "yml") {
            let text = String::from_utf8_lossy(&file.content);
            let path = folder.join(name);
            cases.extend(test_case::read_file(&path, Some(&text), &hook::registry())?);
        }
    }
    Ok(cases)
}
