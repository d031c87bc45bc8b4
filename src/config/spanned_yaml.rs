//! A YAML document as a tree in which every key and value knows its place.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Location, MessageFormatter, Spanned, UserMessageFormatter};

use super::source_span::{Place, Problem};

/// How deep a document may nest: enough for any config, too little for a stack
/// to overflow.
const MAX_DEPTH: usize = 64;

/// One value and where it stands.
#[derive(Debug, Clone)]
struct Node {
    content: Content,
    at: Spot,
}

#[derive(Debug, Clone)]
enum Content {
    Leaf(Value),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    at: Spot,
    value: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    line: u64,
    column: u64,
}

const START: Spot = Spot { line: 1, column: 1 };

/// A parsed document.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    file: PathBuf,
    root: Node,
}

impl Tree {
    /// Parses `text`, which was read from `file`. The one problem is about syntax.
    pub(super) fn parse(text: &str, file: &Path) -> Result<Self, Problem> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            strict_booleans: true,
            with_snippet: false,
            budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        };
        let file = file.to_owned();
        match serde_saphyr::from_str_with_options(text, options) {
            Ok(root) => Ok(Self { file, root }),
            Err(error) => {
                let at = error.location().map_or(START, Spot::from);
                let message = match error.without_snippet() {
                    serde_saphyr::Error::MultipleDocuments { .. } => "a second document".into(),
                    serde_saphyr::Error::Budget { .. } => "too deep or too large".into(),
                    error => UserMessageFormatter.format_message(error),
                };
                let place = at.place(&file);
                Err(Problem::at(
                    &place,
                    format!("neither YAML nor JSON: {message}"),
                ))
            }
        }
    }

    /// The document without its places. An empty one is an empty mapping; of
    /// keys written twice, the last stays.
    pub(super) fn value(&self) -> Value {
        match self.root.value() {
            Value::Null => Value::Object(Map::new()),
            value => value,
        }
    }

    /// Where the value at a JSON pointer stands, or the nearest one around it.
    pub(super) fn place(&self, pointer: &str) -> Place {
        self.find(pointer).1.place(&self.file)
    }

    /// Where the key of that value stands; the value itself if it has no key.
    pub(super) fn key_place(&self, pointer: &str) -> Place {
        self.find(pointer).0.place(&self.file)
    }

    /// One problem for each key that its mapping already has.
    pub(super) fn duplicates(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.root.duplicates(&self.file, &mut problems);
        problems
    }

    /// Where the key and the value at a JSON pointer stand.
    fn find(&self, pointer: &str) -> (Spot, Spot) {
        let mut node = &self.root;
        let mut found = (node.at, node.at);
        for segment in pointer.split('/').skip(1) {
            let segment = unescape(segment);
            let child = match &node.content {
                Content::Leaf(_) => None,
                Content::List(items) => {
                    let index = segment.parse::<usize>().ok();
                    index.and_then(|it| items.get(it)).map(|it| (it.at, it))
                }
                Content::Map(entries) => {
                    let entry = entries.iter().rev().find(|it| it.key == segment);
                    entry.map(|it| (it.at, &it.value))
                }
            };
            let Some((key_at, child)) = child else {
                break;
            };
            found = (key_at, child.at);
            node = child;
        }
        found
    }
}

impl Node {
    fn value(&self) -> Value {
        match &self.content {
            Content::Leaf(value) => value.clone(),
            Content::List(items) => items.iter().map(Self::value).collect(),
            Content::Map(entries) => {
                let pair = |it: &Entry| (it.key.clone(), it.value.value());
                entries.iter().map(pair).collect()
            }
        }
    }

    fn duplicates(&self, file: &Path, problems: &mut Vec<Problem>) {
        match &self.content {
            Content::Leaf(_) => (),
            Content::List(items) => items.iter().for_each(|it| it.duplicates(file, problems)),
            Content::Map(entries) => {
                let mut firsts = BTreeMap::new();
                for Entry { key, at, value } in entries {
                    let first = *firsts.entry(key.as_str()).or_insert(*at);
                    let message = format!("`{key}` is written twice, first on line {}", first.line);
                    let problem = Problem::at(&at.place(file), message);
                    problems.extend((first != *at).then_some(problem));
                    value.duplicates(file, problems);
                }
            }
        }
    }
}

impl Spot {
    fn place(self, file: &Path) -> Place {
        Place {
            file: file.to_owned(),
            line: self.line,
            column: self.column,
        }
    }
}

/// A key as one segment of a JSON pointer.
pub(super) fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// One segment of a JSON pointer as a key.
pub(super) fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Content>::deserialize(deserializer)?;
        Ok(Self {
            content: spanned.value,
            at: spanned.referenced.into(),
        })
    }
}

impl From<Location> for Spot {
    fn from(location: Location) -> Self {
        Self {
            line: location.line(),
            column: location.column(),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Leaf(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Leaf(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Content, E> {
        // Spelled out, so that `1e3` is the integer it looks like.
        let number: Result<Number, _> = value.to_string().parse();
        number
            .map(|it| Content::Leaf(Value::Number(it)))
            .map_err(E::custom)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            entries.push(Entry {
                key: key.value,
                at: key.referenced.into(),
                value: access.next_value()?,
            });
        }
        Ok(Content::Map(entries))
    }
}
