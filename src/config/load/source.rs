//! Checks of `source`, and of settings beside it.

use std::collections::BTreeSet;

use super::{layers::local_bundle_settings, loader::Loader, upstreams::is_unencrypted};
use crate::config::{
    settings::revisions::source::{BundleOrigin, PollRange, SourceSettings},
    source_span::Problem,
    spanned_yaml::span_to_value,
};

/// Settings that choose a config, and so exclude `source`.
const EXCLUDED: [&str; 3] = ["revisions", "rollout", "hook_directory"];

/// Warning about a config that is read by a command, which fetches no bundles.
const WITHOUT_BUNDLES: &str = "the policies and hooks of the bundles of `source` are not part of this: test them in the folders of the bundles";

impl Loader {
    pub(super) fn check_source(&mut self) {
        if self.value.get("source").is_none() {
            return;
        }
        let span = span_to_value(&self.document.key_span("/source"));
        if let Some(source) = self.mapping_mut("/source") {
            source.insert("span".to_owned(), span);
        }
        if self.layers.is_empty() {
            let span = self.document.key_span("/source");
            self.warnings.push(Problem::at(&span, WITHOUT_BUNDLES));
        }
        let local = local_bundle_settings(&self.document, &self.value);
        self.problems.extend(local);
        for name in EXCLUDED {
            if self.value.get(name).is_some() {
                let message = format!("`{name}` and `source` exclude each other");
                self.problem(&format!("/{name}"), message);
            }
        }
        let poll = self.value.pointer("/source/poll").is_some();
        if poll && self.section::<PollRange>("/source/poll").is_none() {
            self.problem("/source/poll", "the range begins with the shorter duration");
        }
        let Some(source) = self.section::<SourceSettings>("/source") else {
            return;
        };
        self.check_bundle_count(&source);
        let is_layered = !source.layers.is_empty();
        for (index, bundle) in source.bundles().iter().enumerate() {
            let pointer = if is_layered {
                format!("/source/layers/{index}")
            } else {
                "/source".to_owned()
            };
            self.check_bundle_origin(&pointer, bundle);
        }
    }

    fn check_bundle_count(&mut self, source: &SourceSettings) {
        let names: BTreeSet<_> = source.layers.iter().map(|layer| &layer.name).collect();
        match (source.url.is_some(), source.layers.len()) {
            (true, 0) | (false, 2) => (),
            (false, 0) => self.problem("/source", "`source` needs `url` or `layers`"),
            (true, _) => self.problem("/source/layers", "`url` and `layers` exclude each other"),
            (false, _) => self.problem("/source/layers", "`layers` are two bundles"),
        }
        if names.len() < source.layers.len() {
            self.problem("/source/layers", "two layers have the same name");
        }
        let shared = ["keys", "token", "unsigned", "allow"].map(|name| format!("/source/{name}"));
        for pointer in shared {
            if !source.layers.is_empty() && self.value.pointer(&pointer).is_some() {
                let message = "each of the `layers` has this setting of its own";
                self.problem(&pointer, message);
            }
        }
    }

    fn check_bundle_origin(&mut self, pointer: &str, bundle: &BundleOrigin) {
        match (bundle.keys.is_empty(), bundle.unsigned) {
            (true, false) => {
                let message = "bundles must be signed: add `keys`, or allow bundles without commands by `unsigned: true`";
                self.problem(pointer, message);
            }
            (false, true) => {
                let message = "`keys` and `unsigned` exclude each other";
                self.problem(&format!("{pointer}/unsigned"), message);
            }
            _ => (),
        }
        if bundle.unsigned {
            let message = "bundles are not signed: who can write to the server, or is between it and this gateway, chooses the policies";
            self.warning(&format!("{pointer}/unsigned"), message);
        }
        if bundle.token.is_some() && is_unencrypted(&bundle.url) {
            let message = "the token is sent unencrypted: use https";
            self.warning(&format!("{pointer}/url"), message);
        }
    }
}
