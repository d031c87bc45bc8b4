//! The stylesheet and the script, under names that change with their content.

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use http::header;

use crate::error::{ApiError, ErrorReason};

/// A file of the console, compiled into the binary.
pub(super) struct Asset {
    content: &'static str,
    content_type: &'static str,
    extension: &'static str,
    hash: u64,
}

/// Stylesheet of all pages.
pub(super) const STYLESHEET: Asset = Asset::new(
    include_str!("assets/console.css"),
    "text/css; charset=utf-8",
    "css",
);

/// Script of all pages: the live tail and keys.
pub(super) const SCRIPT: Asset = Asset::new(
    include_str!("assets/console.js"),
    "text/javascript; charset=utf-8",
    "js",
);

impl Asset {
    const fn new(
        content: &'static str,
        content_type: &'static str,
        extension: &'static str,
    ) -> Self {
        Self {
            content,
            content_type,
            extension,
            hash: fnv1a(content.as_bytes()),
        }
    }

    /// Returns the path of the file.
    pub(super) fn path(&self) -> String {
        format!("/console/assets/{}", self.name())
    }

    fn name(&self) -> String {
        format!("{:016x}.{}", self.hash, self.extension)
    }
}

/// Serves an asset. Its name changes with its content, so browsers may keep it.
pub(super) async fn get_asset(Path(name): Path<String>) -> Response {
    let assets = [&STYLESHEET, &SCRIPT];
    let Some(asset) = assets.into_iter().find(|asset| asset.name() == name) else {
        return ApiError::new(ErrorReason::UnknownPath, "unknown asset").into_response();
    };
    let headers = [
        (header::CONTENT_TYPE, asset.content_type),
        (header::CACHE_CONTROL, "public, max-age=31536000, immutable"),
    ];
    (headers, asset.content).into_response()
}

/// Hashes bytes while the code is compiled (64-bit FNV-1a).
const fn fnv1a(mut bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while let Some((first, rest)) = bytes.split_first() {
        hash = (hash ^ *first as u64).wrapping_mul(0x0100_0000_01b3);
        bytes = rest;
    }
    hash
}
