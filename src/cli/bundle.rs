//! `hookgate bundle`: builds, signs, verifies and publishes bundles of policies.

mod build;
mod files;
mod push;

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use policy_bundle::{PublicKey, SigningKey};

use self::{
    build::BuildArgs,
    files::{read_bundle, refused, write_bundle},
    push::PushArgs,
};
use super::{failure::Failure, output::print};

pub(super) const EXAMPLES: &str = "Examples:
  hookgate bundle key -o bundle.key
  hookgate bundle build policies -o prod.tar.gz
  hookgate bundle sign prod.tar.gz --key bundle.key
  hookgate bundle verify prod.tar.gz --key ed25519:…
  hookgate bundle push prod.tar.gz https://policy.example/hookgate/prod.tar.gz";

/// Command-line arguments of `bundle`.
#[derive(Debug, Args)]
pub(super) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Check the policies of a folder, run their tests, and write them as a bundle
    #[command(after_help = "Example: hookgate bundle build policies -o prod.tar.gz")]
    Build(BuildArgs),
    /// Sign a bundle in place
    #[command(after_help = "Example: hookgate bundle sign prod.tar.gz --key bundle.key")]
    Sign {
        /// Path of the bundle
        bundle: PathBuf,
        /// Path of the private key
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Verify the signature and all files of a bundle
    #[command(after_help = "Example: hookgate bundle verify prod.tar.gz --key ed25519:…")]
    Verify {
        /// Path of the bundle
        bundle: PathBuf,
        /// Public key that may have signed it; can be repeated
        #[arg(long, value_name = "KEY", required = true)]
        key: Vec<PublicKey>,
    },
    /// Generate a key, write it to a file with mode 600, and print its public key
    #[command(after_help = "Example: hookgate bundle key -o bundle.key")]
    Key {
        /// Path of the new file
        #[arg(short, long, value_name = "FILE")]
        output: PathBuf,
    },
    /// Publish a bundle by HTTP PUT
    #[command(
        after_help = "Example: hookgate bundle push prod.tar.gz https://policy.example/hookgate/prod.tar.gz"
    )]
    Push(PushArgs),
}

impl BundleArgs {
    pub(super) fn run(self) -> Result<(), Failure> {
        match self.command {
            BundleCommand::Build(build) => build.run(),
            BundleCommand::Sign { bundle, key } => sign(&bundle, &key),
            BundleCommand::Verify { bundle, key } => verify(&bundle, &key),
            BundleCommand::Key { output } => generate_key(&output),
            BundleCommand::Push(push) => push.run(),
        }
    }
}

fn sign(path: &Path, key: &Path) -> Result<(), Failure> {
    let key = read_key(key)?;
    let mut bundle = read_bundle(path)?;
    bundle.sign(&key);
    write_bundle(path, &bundle)?;
    let public = key.public_key().map_err(Failure::of)?;
    let revision = &bundle.manifest().revision;
    Ok(print(&format!("signed: revision {revision} by {public}"))?)
}

fn verify(path: &Path, keys: &[PublicKey]) -> Result<(), Failure> {
    let bundle = read_bundle(path)?;
    let key = bundle.verify(keys).map_err(|error| refused(path, &error))?;
    let manifest = bundle.manifest();
    let files = manifest.files.len();
    Ok(print(&format!(
        "valid: revision {}, created {}, {files} files, signed by {key}",
        manifest.revision, manifest.created
    ))?)
}

fn generate_key(path: &Path) -> Result<(), Failure> {
    let pem = SigningKey::generate().map_err(Failure::of)?;
    let key = SigningKey::from_pem(&pem).map_err(Failure::of)?;
    let public = key.public_key().map_err(Failure::of)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options.open(path);
    file.and_then(|mut file| file.write_all(pem.as_bytes()))
        .map_err(|error| Failure::at(path, error))?;
    Ok(print(&format!(
        "The private key is in `{}`; keep it secret. Its public key, for `source.keys`:\n{public}",
        path.display()
    ))?)
}

fn read_key(path: &Path) -> Result<SigningKey, Failure> {
    let pem = fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
    SigningKey::from_pem(&pem).map_err(|error| Failure::at(path, error))
}
