//! YAML documents with the position of every key and value.

mod append;
mod tags;
mod values;

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, Value, json};
use serde_saphyr::{
    DuplicateKeyPolicy, Location, MessageFormatter, Span, Spanned, Tagged, UserMessageFormatter,
};

use super::source_span::{Problem, SourceSpan};

/// Maximum nesting of a document: deeper than any config, and safe for the stack.
const MAX_DEPTH: usize = 64;

/// A parsed document with the positions of its keys and values.
#[derive(Debug, Clone)]
pub(crate) struct SpannedYaml {
    /// The file of the document, and those that were appended.
    files: Vec<PathBuf>,
    root: YamlNode,
    /// JSON pointers of a translated document, each with that in this one.
    moves: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct YamlNode {
    content: YamlContent,
    position: Position,
    /// Place of the value in the text, that of an anchor for an alias.
    source: Span,
    /// The tag that is written, in its full form.
    tag: Option<String>,
}

#[derive(Debug, Clone)]
enum YamlContent {
    Leaf(Value),
    List(Vec<YamlNode>),
    Map(Vec<YamlEntry>),
}

#[derive(Debug, Clone)]
struct YamlEntry {
    key: String,
    key_position: Position,
    key_tag: Option<String>,
    value: YamlNode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    /// Number of the file in the document.
    file: usize,
    line: u64,
    column: u64,
}

impl SpannedYaml {
    /// Parses `text`, the content of `file`. Fails with the first syntax error.
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, Problem> {
        let options = serde_saphyr::options! {
            duplicate_keys: DuplicateKeyPolicy::PassThrough,
            strict_booleans: true,
            with_snippet: false,
            budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        };
        let files = vec![file.to_owned()];
        match serde_saphyr::from_str_with_options::<YamlNode>(text, options) {
            Ok(mut root) => {
                root.restore_numbers(text);
                Ok(Self {
                    files,
                    root,
                    moves: Vec::new(),
                })
            }
            Err(error) => {
                let start = Position {
                    file: 0,
                    line: 1,
                    column: 1,
                };
                let position = error.location().map_or(start, Position::from);
                let message = match error.without_snippet() {
                    serde_saphyr::Error::MultipleDocuments { .. } => {
                        "one document is expected; a second one begins here".to_owned()
                    }
                    serde_saphyr::Error::Budget { .. } => {
                        "neither YAML nor JSON: too deep or too large".to_owned()
                    }
                    error => {
                        let message = UserMessageFormatter.format_message(error);
                        let advice = quoting_advice(&message);
                        format!("neither YAML nor JSON: {message}{advice}")
                    }
                };
                Err(Problem::at(&position.in_files(&files), message))
            }
        }
    }

    /// Returns the file of the document.
    pub(crate) fn file(&self) -> &Path {
        self.files.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Returns whether the document has no value, or only `null`.
    pub(crate) const fn is_empty(&self) -> bool {
        matches!(self.root.content, YamlContent::Leaf(Value::Null))
    }

    /// Returns the position of the value at a JSON pointer, or of the closest value
    /// around it.
    pub(crate) fn span(&self, pointer: &str) -> SourceSpan {
        self.find(pointer).1.in_files(&self.files)
    }

    /// Returns the position of the key of that value, or of the value if it has none.
    pub(crate) fn key_span(&self, pointer: &str) -> SourceSpan {
        self.find(pointer).0.in_files(&self.files)
    }

    /// Sets the pointers of values that a translation of the document has moved. The longest
    /// one that is a prefix of a pointer counts.
    pub(crate) fn set_moves(&mut self, moves: Vec<(String, String)>) {
        self.moves = moves;
    }

    /// Returns whether the document has hooks in the form of another agent.
    pub(crate) const fn is_translated(&self) -> bool {
        !self.moves.is_empty()
    }

    /// Returns the pointer in the document for one in its translation.
    fn moved<'a>(&self, pointer: &'a str) -> Cow<'a, str> {
        let moves = self.moves.iter().filter_map(|(to, from)| {
            let rest = pointer.strip_prefix(to)?;
            (rest.is_empty() || rest.starts_with('/')).then_some((from, rest))
        });
        let longest = moves.min_by_key(|(_, rest)| rest.len());
        longest.map_or(Cow::Borrowed(pointer), |(from, rest)| {
            Cow::Owned(format!("{from}{rest}"))
        })
    }

    /// Returns the JSON pointers of all keys and items with their lines, in order.
    pub(crate) fn key_lines(&self) -> Vec<(String, u64)> {
        let mut lines = Vec::new();
        self.root.key_lines("", &mut lines);
        lines
    }

    /// Returns a problem for each duplicate key.
    pub(crate) fn duplicates(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.root.duplicates(&self.files, &mut problems);
        problems
    }

    /// Returns the positions of the key and the value at a JSON pointer.
    fn find(&self, pointer: &str) -> (Position, Position) {
        let pointer = self.moved(pointer);
        let mut node = &self.root;
        let mut key_position = node.position;
        for segment in pointer.split('/').skip(1) {
            let segment = unescape_key(segment);
            let child = match &node.content {
                YamlContent::Leaf(_) => None,
                YamlContent::List(items) => {
                    let index = segment.parse::<usize>().ok();
                    let item = index.and_then(|index| items.get(index));
                    item.map(|item| (item.position, item))
                }
                YamlContent::Map(entries) => {
                    let mut entries = entries.iter().rev();
                    let entry = entries.find(|entry| entry.key == segment);
                    entry.map(|entry| (entry.key_position, &entry.value))
                }
            };
            let Some((position, child)) = child else {
                break;
            };
            (key_position, node) = (position, child);
        }
        (key_position, node.position)
    }
}

impl YamlNode {
    fn key_lines(&self, pointer: &str, lines: &mut Vec<(String, u64)>) {
        let mut add = |key: &str, line: u64, node: &Self| {
            let pointer = format!("{pointer}/{key}");
            lines.push((pointer.clone(), line));
            node.key_lines(&pointer, lines);
        };
        match &self.content {
            YamlContent::Leaf(_) => (),
            YamlContent::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    add(&index.to_string(), item.position.line, item);
                }
            }
            YamlContent::Map(entries) => {
                for entry in entries {
                    add(
                        &escape_key(&entry.key),
                        entry.key_position.line,
                        &entry.value,
                    );
                }
            }
        }
    }

    fn duplicates(&self, files: &[PathBuf], problems: &mut Vec<Problem>) {
        let entries = match &self.content {
            YamlContent::Leaf(_) => return,
            YamlContent::List(items) => {
                return items
                    .iter()
                    .for_each(|item| item.duplicates(files, problems));
            }
            YamlContent::Map(entries) => entries,
        };
        let mut lines = BTreeMap::new();
        for entry in entries {
            let key = entry.key.as_str();
            if let Some(line) = lines.get(key) {
                let message = format!("duplicate key `{key}`, first on line {line}");
                let span = entry.key_position.in_files(files);
                problems.push(Problem::at(&span, message));
            } else {
                lines.insert(key, entry.key_position.line);
            }
            entry.value.duplicates(files, problems);
        }
    }
}

impl Position {
    fn in_files(self, files: &[PathBuf]) -> SourceSpan {
        SourceSpan {
            file: files.get(self.file).cloned().unwrap_or_default(),
            line: self.line,
            column: self.column,
        }
    }
}

/// Returns the advice for a syntax error whose text is likely to need quotes, or other ones.
fn quoting_advice(message: &str) -> &'static str {
    let is_about = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if is_about(&["anchor", "unknown value", "unexpected character"]) {
        "; quote text that begins with `*`, `&`, `@`, `%` or a backtick"
    } else if is_about(&["escape"]) {
        "; write `\\\\` for a backslash, or use single quotes in YAML"
    } else {
        ""
    }
}

/// Serializes a position for [`SourceSpan`]'s deserialization.
pub(crate) fn span_to_value(span: &SourceSpan) -> Value {
    json!({
        "file": span.file.to_string_lossy(),
        "line": span.line,
        "column": span.column,
    })
}

/// Escapes a key as a segment of a JSON pointer (RFC 6901, section 3).
pub(crate) fn escape_key(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

/// Returns the key for a segment of a JSON pointer.
pub(crate) fn unescape_key(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Tagged<YamlContent>>::deserialize(deserializer)?;
        let Tagged(content, tag) = spanned.value;
        Ok(Self {
            content,
            position: spanned.referenced.into(),
            source: spanned.defined.span(),
            tag,
        })
    }
}

impl From<Location> for Position {
    fn from(location: Location) -> Self {
        Self {
            file: 0,
            line: location.line(),
            column: location.column(),
        }
    }
}

impl<'de> Deserialize<'de> for YamlContent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlVisitor)
    }
}

struct YamlVisitor;

impl<'de> Visitor<'de> for YamlVisitor {
    type Value = YamlContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<YamlContent, E> {
        Ok(YamlContent::Leaf(Value::Null))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<YamlContent, E> {
        Ok(YamlContent::Leaf(Value::Bool(value)))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<YamlContent, E> {
        Ok(YamlContent::Leaf(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<YamlContent, E> {
        Ok(YamlContent::Leaf(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<YamlContent, E> {
        let number: Result<Number, _> = value.to_string().parse();
        number
            .map(|number| YamlContent::Leaf(Value::Number(number)))
            .map_err(E::custom)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<YamlContent, E> {
        Ok(YamlContent::Leaf(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<YamlContent, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(YamlContent::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<YamlContent, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<Tagged<String>>>()? {
            let Tagged(text, key_tag) = key.value;
            entries.push(YamlEntry {
                key: text,
                key_position: key.referenced.into(),
                key_tag,
                value: access.next_value()?,
            });
        }
        Ok(YamlContent::Map(entries))
    }
}
