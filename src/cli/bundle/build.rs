//! `hookgate bundle build`: checks a folder and writes it as a bundle.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{self, Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use jiff::Timestamp;
use policy_bundle::{
    Bundle, BundleFile, ExtractedBundle, Manifest, Requirement, Revision, read_directory,
};
use uuid::Uuid;

use super::files::{read_bundle, write_bundle};
use crate::{
    bundle::{check_guards, load_layers, run_tests},
    cli::{
        failure::Failure,
        output::{print, print_error},
        runtime::{block_on, until_signal},
    },
    config::{
        BUNDLE_CONFIG, BundleCapability, BundleTrust, Config, ConfigError, PolicyLayer, Problem,
    },
    server,
};

/// Variable with the time of reproducible builds, in seconds since 1970.
const SOURCE_DATE_EPOCH: &str = "SOURCE_DATE_EPOCH";

/// Digits of the SHA-256 that is the revision without `--revision`.
const REVISION_DIGITS: usize = 16;

/// Versions of hookgate that can use a bundle without `--requires`.
const DEFAULT_REQUIREMENT: &str = concat!(">=", env!("CARGO_PKG_VERSION"));

/// Command-line arguments of `bundle build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Folder with `hookgate.yaml`, hooks, and test cases in `tests/`
    directory: PathBuf,
    /// Path of the bundle
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Name of the revision. Default: digits of a SHA-256 over the manifest
    #[arg(long, value_name = "NAME")]
    revision: Option<Revision>,
    /// Time of the revision. Default: that of `SOURCE_DATE_EPOCH`, or now
    #[arg(long, value_name = "RFC3339")]
    created: Option<Timestamp>,
    /// Path of the bundle that this one replaces
    #[arg(long, value_name = "FILE")]
    parent: Option<PathBuf>,
    /// Let replicas that have this bundle return to its parent
    #[arg(long, requires = "parent")]
    allow_parent: bool,
    /// Versions of hookgate that can use the bundle. Default: this one and later
    #[arg(long, value_name = "VERSION")]
    requires: Option<Requirement>,
    /// Path of the organisation's bundle, under which this one is used
    #[arg(long, value_name = "FILE")]
    org: Option<PathBuf>,
    /// Capabilities that gateways allow the bundle (`source.allow`), separated by commas; an empty
    /// text for none
    #[arg(long, value_name = "LIST", default_value = "commands,http,secrets", value_parser = capabilities)]
    allow: BTreeSet<BundleCapability>,
}

impl BuildArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        let org = self.org.as_deref().map(OrgBundle::extract).transpose()?;
        let built = self.build(org.as_ref());
        built.map_err(|failure| match &org {
            Some(org) => org.named_failure(failure),
            None => failure,
        })
    }

    fn build(&self, org: Option<&OrgBundle<'_>>) -> Result<(), Failure> {
        let files = self.files()?;
        if !files.contains_key(BUNDLE_CONFIG) {
            let folder = self.directory.display();
            let message = format!("`{folder}` has no `{BUNDLE_CONFIG}`");
            return Err(Failure::Failed(message));
        }
        let config = load_layers(self.layers(org))?;
        check_files(&config, &self.directory, &files)?;
        let cases = block_on(until_signal(async {
            for warning in check_guards(config.clone()).await? {
                let warning = format!("warning: {warning}");
                print_error(&org.map_or_else(|| warning.clone(), |org| org.named(&warning)));
            }
            let run = run_tests(&config, server::handle_agent_request);
            Ok(Box::pin(run).await?)
        }))?;
        let bundle = Bundle::build(self.manifest(&files)?, files).map_err(Failure::of)?;
        write_bundle(&self.output, &bundle)?;
        let manifest = bundle.manifest();
        Ok(print(&format!(
            "built: revision {}, created {}, {} files, {cases} tests passed",
            manifest.revision,
            manifest.created,
            manifest.files.len()
        ))?)
    }

    /// Reads the files of the folder, without the bundle that an earlier build may have written
    /// there.
    fn files(&self) -> Result<BTreeMap<String, BundleFile>, Failure> {
        let mut files = read_directory(&self.directory).map_err(Failure::of)?;
        if let Some(name) = self.output_name() {
            files.remove(&name);
        }
        Ok(files)
    }

    /// Returns the path of the bundle in the folder, if it is there.
    fn output_name(&self) -> Option<String> {
        let output = path::absolute(&self.output).ok()?;
        let parent = fs::canonicalize(output.parent()?).ok()?;
        let output = parent.join(output.file_name()?);
        let directory = fs::canonicalize(&self.directory).ok()?;
        let name = output.strip_prefix(directory).ok()?;
        name.to_str().map(str::to_owned)
    }

    /// Returns the bundles whose policies are checked together: the organisation's, if there is
    /// one, and the folder.
    fn layers(&self, org: Option<&OrgBundle<'_>>) -> Vec<PolicyLayer> {
        let own = PolicyLayer {
            name: "bundle".to_owned(),
            directory: self.directory.clone(),
            digest: String::new(),
            bundle: None,
            trust: BundleTrust::Signed,
            allowed: self.allow.clone(),
        };
        org.map(OrgBundle::layer).into_iter().chain([own]).collect()
    }

    fn manifest(&self, files: &BTreeMap<String, BundleFile>) -> Result<Manifest, Failure> {
        let parent = self.parent.as_deref().map(read_bundle).transpose()?;
        let parent = parent.map(|bundle| bundle.manifest().revision.clone());
        let created = match self.created {
            Some(created) => created,
            None => default_time()?,
        };
        let requires = match self.requires {
            Some(requires) => requires,
            None => DEFAULT_REQUIREMENT.parse().map_err(Failure::Failed)?,
        };
        let mut manifest = Manifest {
            revision: "none".parse().map_err(Failure::Failed)?,
            created,
            parent,
            allows_parent: self.allow_parent,
            requires,
            files: BTreeMap::new(),
            executable: Vec::new(),
        };
        manifest.revision = if let Some(revision) = &self.revision {
            revision.clone()
        } else {
            let unnamed = Bundle::build(manifest.clone(), files.clone());
            let mut digest = unnamed.map_err(Failure::of)?.digest();
            digest.truncate(REVISION_DIGITS);
            digest.parse().map_err(Failure::Failed)?
        };
        Ok(manifest)
    }
}

/// The organisation's bundle in a temporary folder. Messages name its files by its path.
struct OrgBundle<'a> {
    path: &'a Path,
    extracted: Arc<ExtractedBundle>,
}

impl<'a> OrgBundle<'a> {
    fn extract(path: &'a Path) -> Result<Self, Failure> {
        let bundle = read_bundle(path)?;
        let name = format!("hookgate-bundle-{}", Uuid::new_v4());
        let extracted = ExtractedBundle::new(bundle, env::temp_dir().join(name));
        let extracted = Arc::new(extracted.map_err(Failure::of)?);
        Ok(Self { path, extracted })
    }

    fn layer(&self) -> PolicyLayer {
        let extracted = Arc::clone(&self.extracted);
        let allowed = BundleCapability::all();
        PolicyLayer::of_bundle("org".to_owned(), extracted, BundleTrust::Signed, allowed)
    }

    /// Replaces the temporary folder in a message.
    fn named(&self, message: &str) -> String {
        let folder = self.extracted.directory().display().to_string();
        message.replace(&folder, &self.path.display().to_string())
    }

    fn named_failure(&self, failure: Failure) -> Failure {
        match failure {
            Failure::Failed(message) => Failure::Failed(self.named(&message)),
            Failure::BadConfig(error) => {
                let problems = error.problems.iter();
                let named = problems.map(|problem| self.named(&problem.to_string()));
                let problems: Vec<_> = named.map(Problem::without_span).collect();
                Failure::BadConfig(problems.into())
            }
            Failure::Unavailable(_) | Failure::Interrupted(_) => failure,
        }
    }
}

/// Checks that the bundle has all files that its config names.
fn check_files(
    config: &Config,
    directory: &Path,
    files: &BTreeMap<String, BundleFile>,
) -> Result<(), ConfigError> {
    let missing = config.files.iter().filter(|file| {
        let name = file.strip_prefix(directory).ok();
        let name = name.and_then(|name| name.to_str());
        !name.is_some_and(|name| files.contains_key(name))
    });
    let problems = missing
        .map(|file| Problem::without_span(format!("`{}` is not in the bundle", file.display())));
    ConfigError::check(problems.collect())
}

/// Returns the time of reproducible builds, or now.
fn default_time() -> Result<Timestamp, Failure> {
    let Some(seconds) = env::var_os(SOURCE_DATE_EPOCH) else {
        // Whole milliseconds, which are compared without surprises.
        let now = Timestamp::now().as_millisecond();
        return Timestamp::from_millisecond(now).map_err(Failure::of);
    };
    let seconds = seconds.to_str().and_then(|text| text.parse().ok());
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.ok_or_else(|| Failure::Failed(format!("`{SOURCE_DATE_EPOCH}` is not a time in seconds")))
}

/// Parses names of capabilities, separated by commas.
fn capabilities(text: &str) -> Result<BTreeSet<BundleCapability>, String> {
    let names = text.split(',').filter(|name| !name.is_empty());
    let parsed = names.map(|name| {
        let mut all = BundleCapability::all().into_iter();
        let found = all.find(|capability| capability.as_str() == name);
        found.ok_or_else(|| format!("`{name}` is not one of `commands`, `http` and `secrets`"))
    });
    parsed.collect()
}
