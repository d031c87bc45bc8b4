//! The folder with the bundles in use: archives that a start reads again, and extracted files.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use policy_bundle::{Bundle, BundleError, ExtractedBundle, MAX_ARCHIVE_BYTES, Manifest};
use serde::de::DeserializeOwned;
use thiserror::Error;
use url::Url;

use crate::{
    config::{BundleOrigin, PolicyLayer},
    file_replacement::{PRIVATE_MODE, create_folder, replace_file},
    regular_file,
    sha256::sha256_hex,
};

/// Name of the file that names the archives in use.
const ACTIVE: &str = "active.json";

/// Name of the file with the manifests of the bundles in use, by name. If an archive is
/// damaged, they show which bundles are older.
const MANIFESTS: &str = "manifests.json";

/// Name of the file with the hashed URLs of the bundles in use, by name.
const URLS: &str = "urls.json";

/// Name of the folder with the files of bundles.
const EXTRACTED: &str = "extracted";

const ARCHIVE_EXTENSION: &str = "gz";

/// Digits of the digest in the names of archives and folders.
const SHOWN_DIGITS: usize = 16;

/// The folder with the bundles in use. Locked for this process.
#[derive(Debug)]
pub(super) struct BundleStore {
    folder: PathBuf,
    /// Hashed URLs of the bundles of `source`, by name.
    urls: BTreeMap<String, String>,
    /// Number of the next extracted bundle: equal bundles may be in use at once.
    next: AtomicU64,
    _lock: File,
}

/// Reason why the folder cannot be used.
#[derive(Debug, Error)]
pub enum BundleStoreError {
    /// Another process uses the folder.
    #[error("`source.persist`: `{}` is in use by another process", .0.display())]
    Locked(PathBuf),
    /// A file cannot be read or written, or is damaged.
    #[error("`source.persist`: `{path}`: {source}")]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A stored bundle is refused.
    #[error("bundle `{name}` in `source.persist`: {source}")]
    Refused {
        /// Name of the bundle.
        name: String,
        /// Reason why it is refused.
        source: BundleError,
    },
}

impl BundleStore {
    /// Opens the folder, and creates it if its parent exists. Removes what an earlier process has
    /// extracted.
    pub(super) fn open(folder: &Path, bundles: &[BundleOrigin]) -> Result<Self, BundleStoreError> {
        let at = |path: &Path| {
            let path = path.to_owned();
            move |source| BundleStoreError::Io { path, source }
        };
        create_folder(folder).map_err(at(folder))?;
        let lock = File::open(folder).map_err(at(folder))?;
        lock.try_lock()
            .map_err(|_| BundleStoreError::Locked(folder.to_owned()))?;
        let extracted = folder.join(EXTRACTED);
        match fs::remove_dir_all(&extracted) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&extracted)(error)),
            _ => (),
        }
        create_folder(&extracted).map_err(at(&extracted))?;
        Ok(Self {
            folder: folder.to_owned(),
            urls: bundles
                .iter()
                .map(|origin| (origin.name.clone(), hashed(&origin.url)))
                .collect(),
            next: AtomicU64::default(),
            _lock: lock,
        })
    }

    /// Reads the stored bundle of each name, if they were all stored and have the URLs of `source`.
    /// Their signatures are not verified.
    pub(super) fn read<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<Vec<Bundle>>, BundleStoreError> {
        let mut active: BTreeMap<String, String> = self.read_json(ACTIVE)?;
        self.retain_same_urls(&mut active)?;
        let mut bundles = Vec::new();
        for name in names {
            let Some(file) = active.get(name).filter(|file| is_archive(file)) else {
                return Ok(None);
            };
            let bundle = self.read_archive(file);
            bundles.push(bundle.map_err(|source| BundleStoreError::Refused {
                name: name.to_owned(),
                source,
            })?);
        }
        Ok(Some(bundles))
    }

    /// Reads the manifests of the bundles that were last in use and have the URLs of `source`, by
    /// name.
    pub(super) fn manifests(&self) -> Result<BTreeMap<String, Manifest>, BundleStoreError> {
        let mut manifests: BTreeMap<String, Manifest> = self.read_json(MANIFESTS)?;
        let count = manifests.len();
        self.retain_same_urls(&mut manifests)?;
        if manifests.len() < count {
            tracing::info!("stored bundles are of another source.url, and not used");
        }
        Ok(manifests)
    }

    /// Removes what is stored of bundles of other URLs. An earlier version stored none.
    fn retain_same_urls<T>(
        &self,
        stored: &mut BTreeMap<String, T>,
    ) -> Result<(), BundleStoreError> {
        let urls: BTreeMap<String, String> = self.read_json(URLS)?;
        stored.retain(|name, _| {
            urls.get(name)
                .is_none_or(|url| self.urls.get(name) == Some(url))
        });
        Ok(())
    }

    /// Stores the bundles in use, as a whole, and removes those before them.
    pub(super) fn write(&self, layers: &[PolicyLayer]) -> Result<(), BundleStoreError> {
        let (mut active, mut manifests) = (BTreeMap::new(), BTreeMap::new());
        for layer in layers {
            let Some(extracted) = &layer.bundle else {
                continue;
            };
            let (name, digest) = (&layer.name, shortened(&layer.digest));
            let file = format!("{name}-{digest}.tar.{ARCHIVE_EXTENSION}");
            // An equal archive may be signed by another key.
            let archive = extracted.bundle().to_bytes();
            self.replace(&file, archive.map_err(io::Error::other))?;
            active.insert(layer.name.clone(), file);
            manifests.insert(layer.name.as_str(), extracted.bundle().manifest());
        }
        self.replace(ACTIVE, serde_json::to_vec(&active).map_err(io::Error::from))?;
        let manifests = serde_json::to_vec(&manifests);
        self.replace(MANIFESTS, manifests.map_err(io::Error::from))?;
        // Last: if this is not written, the bundles are fetched again.
        let urls = serde_json::to_vec(&self.urls);
        self.replace(URLS, urls.map_err(io::Error::from))?;
        self.remove_others(&active);
        Ok(())
    }

    /// Reads a file of JSON; returns an empty value if there is none.
    fn read_json<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, BundleStoreError> {
        let path = self.folder.join(name);
        match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
            read => read
                .and_then(|json| Ok(serde_json::from_slice(&json)?))
                .map_err(|source| BundleStoreError::Io { path, source }),
        }
    }

    fn replace(&self, name: &str, content: io::Result<Vec<u8>>) -> Result<(), BundleStoreError> {
        let path = self.folder.join(name);
        content
            .and_then(|content| replace_file(&path, &content, PRIVATE_MODE))
            .map_err(|source| BundleStoreError::Io { path, source })
    }

    /// Extracts a bundle into a new folder.
    pub(super) fn extract(
        &self,
        name: &str,
        bundle: Bundle,
    ) -> Result<Arc<ExtractedBundle>, BundleError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let folder = format!("{name}-{}-{number}", shortened(&bundle.digest()));
        let folder = self.folder.join(EXTRACTED).join(folder);
        Ok(Arc::new(ExtractedBundle::new(bundle, folder)?))
    }

    fn read_archive(&self, file: &str) -> Result<Bundle, BundleError> {
        let path = self.folder.join(file);
        let archive = regular_file::read(&path, MAX_ARCHIVE_BYTES as u64);
        let archive = archive.map_err(|source| BundleError::Io { path, source })?;
        Bundle::from_bytes(&archive)
    }

    /// Removes the archives that are not in use. One that cannot be removed is not read.
    fn remove_others(&self, active: &BTreeMap<String, String>) {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_archive(&name) && !active.values().any(|file| *file == name) {
                fs::remove_file(entry.path()).ok();
            }
        }
    }
}

/// Returns the hash of a URL without its query, which may have a signature that expires.
fn hashed(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    sha256_hex(url.as_str())
}

/// Returns whether a name is that of an archive in this folder.
fn is_archive(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name() == Some(path.as_os_str())
        && path
            .extension()
            .is_some_and(|extension| extension == ARCHIVE_EXTENSION)
}

fn shortened(digest: &str) -> &str {
    digest.get(..SHOWN_DIGITS).unwrap_or(digest)
}
