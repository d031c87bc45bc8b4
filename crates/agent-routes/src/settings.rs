//! Settings of agents: environment and files, with the place of each value.

use std::{
    collections::BTreeMap,
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::env_file::variables;

/// Maximum size of a file with settings.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The character with which some programs on Windows begin a file.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Comments alone of all that the parser accepts beyond JSON.
const COMMENTS: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_loose_object_property_names: false,
    allow_trailing_commas: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

const COMMENTS_AND_TRAILING_COMMAS: ParseOptions = ParseOptions {
    allow_trailing_commas: true,
    ..COMMENTS
};

/// Files and environment of the machine or pod in which agents run.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Root of the file system.
    pub root: PathBuf,
    /// Home directory of the user.
    pub home: PathBuf,
    /// Directory in which agents are started.
    pub project: PathBuf,
    /// Environment in which agents are started. Paths in it are below the root.
    pub environment: BTreeMap<String, String>,
}

/// Position of a value: its file or the environment, and its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SettingPosition {
    /// The file; `None` is the environment.
    pub file: Option<PathBuf>,
    /// The variable, or the path of the key with dots; empty for the whole file.
    pub key: String,
}

/// A value and its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value, as it is written.
    pub value: String,
    /// The file or variable in which it is written.
    pub place: SettingPosition,
}

/// A file that exists and whose settings are not known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unreadable {
    /// Path of the file that was found, or name of the variable with such a text.
    pub file: PathBuf,
    /// Error of reading or parsing the file.
    pub error: String,
}

/// Format of a file with settings, as strict as the agent that reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    /// JSON, which a byte order mark may precede, or a blank text.
    Json,
    /// JSON with comments, without a byte order mark.
    CommentedJson,
    /// JSON with comments and trailing commas, which a byte order mark may precede.
    Jsonc,
    Toml,
    Yaml,
    /// Lines like `NAME=value`, as in `.env` files.
    Variables,
}

/// Settings of a file.
#[derive(Debug)]
pub(crate) struct Document {
    file: PathBuf,
    value: Value,
}

/// Reader of a machine's settings, which keeps what it could not read.
#[derive(Debug)]
pub(crate) struct SettingsReader<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Machine {
    /// Returns whether one of the folders of `PATH` has this program.
    pub(crate) fn has_program(&self, name: &str) -> bool {
        let path = self.environment.get("PATH").map_or("", String::as_str);
        path.split(':')
            .any(|folder| self.root_file(folder).join(name).is_file())
    }

    /// Returns whether an agent is installed, or has a folder in the home folder.
    pub(crate) fn has_agent(&self, program: &str, folder: &str) -> bool {
        self.has_program(program) || self.home.join(folder).is_dir()
    }

    /// Returns the path of a file of the system.
    pub(crate) fn root_file(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// Returns the folder that a variable names, or a folder of the home directory.
    pub(crate) fn folder(&self, variable: &str, in_home: &str) -> PathBuf {
        let named = self.variable(variable);
        named.map_or_else(
            || self.home.join(in_home),
            |setting| self.root_file(&setting.value),
        )
    }

    /// Returns the root of the git repository that contains the project.
    pub(crate) fn repository(&self) -> Option<&Path> {
        let mut folders = self.project.ancestors();
        folders.find(|folder| folder.join(".git").exists())
    }

    /// Returns a variable of the environment that is not empty.
    pub(crate) fn variable(&self, name: &str) -> Option<Setting> {
        self.assignment(name).filter(Setting::has_value)
    }

    /// Returns a variable of the environment, which may be empty.
    pub(crate) fn assignment(&self, name: &str) -> Option<Setting> {
        let value = self.environment.get(name)?;
        Some(Setting {
            value: value.clone(),
            place: SettingPosition {
                file: None,
                key: name.to_owned(),
            },
        })
    }
}

impl Setting {
    /// Returns the settings before an empty one. It hides those that it precedes.
    pub(crate) fn until_empty(settings: impl Iterator<Item = Self>) -> impl Iterator<Item = Self> {
        settings.take_while(Self::has_value)
    }

    fn has_value(&self) -> bool {
        !self.value.is_empty()
    }
}

impl SettingsReader<'_> {
    /// Returns the settings of a file, if it exists and can be read.
    pub(crate) fn read(&mut self, file: &Path, format: Format) -> Option<Document> {
        match read_text(file) {
            Ok(text) => self.parse(&text, file, format),
            Err(error) if is_absent(&error) => None,
            Err(error) => self.skip(file, error.to_string()),
        }
    }

    /// Returns the settings in the text of a variable, whose name takes the place of the file.
    pub(crate) fn read_variable(&mut self, name: &str, format: Format) -> Option<Document> {
        let text = self.machine.variable(name)?.value;
        self.parse(&text, Path::new(name), format)
    }

    /// Reads the files of a folder whose names end like this, in the order of their names.
    pub(crate) fn read_all(
        &mut self,
        folder: &Path,
        ending: &str,
        format: Format,
    ) -> Vec<Document> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        files.retain(|file| file.to_str().is_some_and(|path| path.ends_with(ending)));
        files.sort();
        self.read_files(files, format)
    }

    /// Reads those of the files that exist, each once.
    pub(crate) fn read_files(
        &mut self,
        files: impl IntoIterator<Item = PathBuf>,
        format: Format,
    ) -> Vec<Document> {
        let mut documents: Vec<Document> = Vec::new();
        for file in files {
            if documents.iter().all(|document| document.file != file) {
                documents.extend(self.read(&file, format));
            }
        }
        documents
    }

    fn parse(&mut self, text: &str, file: &Path, format: Format) -> Option<Document> {
        match format.parse(text) {
            Ok(value) => Some(Document {
                file: file.to_owned(),
                value,
            }),
            Err(error) => self.skip(file, error),
        }
    }

    fn skip<T>(&mut self, file: &Path, error: String) -> Option<T> {
        let file = file.to_owned();
        self.unreadable.push(Unreadable { file, error });
        None
    }
}

impl Format {
    /// Reads a file. Errors do not quote it: it may contain keys.
    fn parse(self, text: &str) -> Result<Value, String> {
        let unmarked = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        match self {
            Self::Json if unmarked.trim().is_empty() => Ok(Value::Null),
            Self::Json => serde_json::from_str(unmarked)
                .map_err(|error| invalid("JSON", Some((error.line(), error.column())))),
            Self::CommentedJson => parse_commented(text, &COMMENTS),
            Self::Jsonc => parse_commented(unmarked, &COMMENTS_AND_TRAILING_COMMAS),
            Self::Toml => toml::from_str(text).map_err(|error| {
                let before = error.span().and_then(|span| text.get(..span.start));
                invalid("TOML", before.map(end_of))
            }),
            Self::Yaml => serde_saphyr::from_str(text).map_err(|error| {
                let place = error.location();
                let place = place.map(|location| (location.line(), location.column()));
                invalid("YAML", place)
            }),
            Self::Variables => Ok(variables(text).into()),
        }
    }
}

impl Document {
    /// Returns a text at a path of keys, if it is not empty.
    pub(crate) fn text(&self, path: &[&str]) -> Option<Setting> {
        self.assignment(path).filter(Setting::has_value)
    }

    /// Returns a text at a path of keys, which may be empty.
    pub(crate) fn assignment(&self, path: &[&str]) -> Option<Setting> {
        let text = self.value_at(path)?.as_str()?;
        Some(self.setting(path, text.to_owned()))
    }

    /// Returns a variable of the object `env`, which may be empty. Numbers and booleans count as
    /// their texts.
    pub(crate) fn variable(&self, name: &str) -> Option<Setting> {
        let path = ["env", name];
        let text = match self.value_at(&path)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            Value::Null | Value::Array(_) | Value::Object(_) => return None,
        };
        Some(self.setting(&path, text))
    }

    /// Returns the keys of an object at a path, each with its value.
    pub(crate) fn entries(&self, path: &[&str]) -> impl Iterator<Item = (&String, &Value)> {
        let value = self.value_at(path);
        value.and_then(Value::as_object).into_iter().flatten()
    }

    /// Returns the texts of a list at a path, if there is one.
    pub(crate) fn list(&self, path: &[&str]) -> Option<Vec<&str>> {
        let items = self.value_at(path)?.as_array()?;
        Some(items.iter().filter_map(Value::as_str).collect())
    }

    fn value_at(&self, path: &[&str]) -> Option<&Value> {
        path.iter()
            .try_fold(&self.value, |value, key| value.get(key))
    }

    fn setting(&self, path: &[&str], value: String) -> Setting {
        let place = self.place(path);
        Setting { value, place }
    }

    /// Returns the place of a path of keys.
    pub(crate) fn place(&self, path: &[&str]) -> SettingPosition {
        SettingPosition {
            file: Some(self.file.clone()),
            key: path.join("."),
        }
    }
}

impl SettingPosition {
    /// Returns the place of a whole file, if it exists.
    pub(crate) fn of_file(file: PathBuf) -> Option<Self> {
        file.is_file().then_some(Self {
            file: Some(file),
            key: String::new(),
        })
    }
}

impl fmt::Display for SettingPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            None => write!(formatter, "{} in the environment", self.key),
            Some(file) if self.key.is_empty() => write!(formatter, "{}", file.display()),
            Some(file) => write!(formatter, "{} in {}", self.key, file.display()),
        }
    }
}

impl Serialize for SettingPosition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn parse_commented(text: &str, options: &ParseOptions) -> Result<Value, String> {
    parse_to_serde_value(text, options).map_err(|error| {
        let place = (error.line_display(), error.column_display());
        invalid("JSON", Some(place))
    })
}

/// Returns the message for a syntax error, with its line and column if they are known.
fn invalid<T: fmt::Display>(format: &str, place: Option<(T, T)>) -> String {
    match place {
        Some((line, column)) => format!("not valid {format} at line {line}, column {column}"),
        None => format!("not valid {format}"),
    }
}

/// Returns the line and the column of the character after a text.
fn end_of(text: &str) -> (usize, usize) {
    let last = text.rsplit('\n').next().unwrap_or_default();
    (text.matches('\n').count() + 1, last.chars().count() + 1)
}

fn read_text(file: &Path) -> io::Result<String> {
    // Before it is opened: a named pipe would wait for its writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    let file = File::open(file)?;
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    Ok(text)
}

/// Returns whether there is no such file, also because a folder above it is a file.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
