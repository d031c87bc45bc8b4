//! From text to masked text: what all rules found is put in order, and what is
//! decided goes out.

use std::ops::Range;

use super::{
    Rules,
    label::Label,
    matcher::Search,
    prefilter_table::{self, Bits},
    window::View,
};

/// How far a text has come.
#[derive(Debug, Default)]
pub(super) struct Flow {
    /// One for each rule, once the first of them has something to do.
    searches: Vec<Search>,
    /// Where the gate has looked already.
    looked: usize,
    /// What was found and has not gone out.
    found: Vec<Found>,
    /// Everything before this place has gone out, or is in `cover`.
    done: usize,
    /// The secret at `done`, if there may be more of it.
    cover: Option<Cover>,
}

#[derive(Debug)]
struct Found {
    secret: Range<usize>,
    rule: usize,
}

/// Secrets that overlap, under the label of the first.
#[derive(Debug)]
struct Cover {
    end: usize,
    label: Label,
}

impl Flow {
    /// Looks for secrets in what is new of a text.
    pub(super) fn search(&mut self, rules: &Rules, view: View<'_>) {
        for rule in 0..self.searches.len() {
            if !self.is_running(rule) {
                continue;
            }
            self.go(rules, view, rule);
            if !self.is_running(rule) {
                // Where it has been, a later match may begin.
                let from = self.searches.get(rule).map_or(0, Search::from);
                self.look(rules, view, from..self.looked, prefilter_table::bit(rule));
            }
        }
        self.look(rules, view, self.looked..view.end(), prefilter_table::ALL);
        self.looked = view.end();
    }

    /// Whether anything was found and has not gone out.
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Everything before this place has gone out or is concealed.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Whether a label has not gone out although its secret is concealed.
    pub(super) fn is_owing(&self) -> bool {
        let cover = self.cover.as_ref();
        cover.is_some_and(|it| matches!(it.label, Label::Hashed { .. }))
    }

    /// The rules that found something.
    pub(super) fn rules(&self) -> impl Iterator<Item = usize> {
        let searches = self.searches.iter().enumerate();
        searches.filter_map(|(rule, it)| it.has_found.then_some(rule))
    }

    /// Lets out what is decided. Everything before the place that it gives is needed
    /// no more, but as context.
    pub(super) fn settle(&mut self, rules: &Rules, view: View<'_>, out: &mut String) -> usize {
        let undecided = self.undecided(rules, view);
        self.found
            .sort_unstable_by_key(|it| (it.secret.start, it.rule));
        let ready = self.found.partition_point(|it| it.secret.start < undecided);
        let later = self.found.split_off(ready);
        for found in std::mem::replace(&mut self.found, later) {
            self.cover(rules, view, &found, out);
        }
        let ends = self.cover.as_ref().is_none_or(|it| it.end <= undecided);
        if ends {
            self.uncover(view, out);
            self.pass(view, undecided, out);
        } else {
            self.swallow(view);
        }
        undecided.min(self.done)
    }

    /// Runs the wanted rules wherever they may begin in a range.
    fn look(&mut self, rules: &Rules, view: View<'_>, mut range: Range<usize>, wanted: Bits) {
        while let Some((at, hits)) = rules.gate.next(view, range.clone(), wanted) {
            if self.searches.is_empty() {
                self.searches.resize_with(rules.all.len(), Search::default);
            }
            for rule in prefilter_table::rules(hits, rules.all.len()) {
                self.begin(rules, view, rule, at);
            }
            range.start = at + 1;
        }
    }

    fn begin(&mut self, rules: &Rules, view: View<'_>, rule: usize, at: usize) {
        let (Some(it), Some(search)) = (rules.all.get(rule), self.searches.get_mut(rule)) else {
            return;
        };
        if !search.is_running() {
            search.begin(it, view, at);
            self.go(rules, view, rule);
        }
    }

    fn go(&mut self, rules: &Rules, view: View<'_>, rule: usize) {
        let (Some(it), Some(search)) = (rules.all.get(rule), self.searches.get_mut(rule)) else {
            return;
        };
        if let Some(secret) = search.go(it, view, rules.limit) {
            self.found.push(Found { secret, rule });
        }
    }

    fn is_running(&self, rule: usize) -> bool {
        self.searches.get(rule).is_some_and(Search::is_running)
    }

    /// The first place at which a secret may begin that is not known yet.
    fn undecided(&self, rules: &Rules, view: View<'_>) -> usize {
        let end = view.end();
        if view.is_last() {
            return end;
        }
        let mut first = end;
        for (at, rule) in rules.all.iter().enumerate() {
            let search = self.searches.get(at);
            let running = search.and_then(Search::undecided);
            let from = search.map_or(0, Search::from);
            let lead = || rule.lead(view, from, end);
            first = first.min(running.or_else(lead).unwrap_or(end));
        }
        first
    }

    /// Puts a secret under the cover, or under a new one.
    fn cover(&mut self, rules: &Rules, view: View<'_>, found: &Found, out: &mut String) {
        match &mut self.cover {
            Some(cover) if found.secret.start < cover.end => {
                cover.end = cover.end.max(found.secret.end);
            }
            _ => {
                self.uncover(view, out);
                self.pass(view, found.secret.start, out);
                let name = rules.all.get(found.rule).map_or("", |it| &it.name);
                self.cover = Some(Cover {
                    end: found.secret.end,
                    label: rules.labels.open(name, out),
                });
            }
        }
    }

    /// The secret under the cover is whole.
    fn uncover(&mut self, view: View<'_>, out: &mut String) {
        self.swallow(view);
        if let Some(cover) = self.cover.take() {
            cover.label.close(out);
        }
    }

    /// Takes under the cover what belongs there.
    fn swallow(&mut self, view: View<'_>) {
        if let Some(cover) = &mut self.cover {
            cover.label.take(view.bytes(self.done..cover.end));
            self.done = cover.end;
        }
    }

    /// Lets text out up to a place.
    fn pass(&mut self, view: View<'_>, to: usize, out: &mut String) {
        out.push_str(view.text(self.done..to));
        self.done = self.done.max(to);
    }
}
