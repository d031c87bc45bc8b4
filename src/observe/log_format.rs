//! The fields of a log line for people: `name=value`, as `tracing_subscriber`
//! writes them, with fewer detours: every call writes such a line.

use std::{
    error::Error,
    fmt::{self, Debug, Write},
};

use jiff::Timestamp;
use tracing::field::{Field, Visit};
use tracing_subscriber::{
    field::{RecordFields, VisitOutput},
    fmt::{
        FormatFields,
        format::{DefaultVisitor, Writer},
        time::FormatTime,
    },
};

/// Says when a line was written: UTC, with microseconds.
#[derive(Debug)]
pub(super) struct Clock;

impl FormatTime for Clock {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.6}", Timestamp::now())
    }
}

/// Writes the fields of a line.
#[derive(Debug)]
pub(super) struct Fields;

impl<'w> FormatFields<'w> for Fields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line {
            text: String::with_capacity(USUAL),
        };
        fields.record(&mut line);
        writer.write_str(&line.text)
    }
}

/// About how long the fields of a line are.
const USUAL: usize = 256;

struct Line {
    text: String,
}

/// The text of a line is a field, too.
const MESSAGE: &str = "message";

impl Line {
    /// A field begins.
    fn begin(&mut self, field: &Field) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        if field.name() != MESSAGE {
            self.text.push_str(field.name());
            self.text.push('=');
        }
    }
}

// Writing into a `String` cannot fail.
impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |it: u8| matches!(it, b' '..=b'~') && it != b'"' && it != b'\\';
        self.begin(field);
        if field.name() == MESSAGE {
            self.text.push_str(value);
        } else if value.bytes().all(is_plain) {
            self.text.push('"');
            self.text.push_str(value);
            self.text.push('"');
        } else {
            let _infallible = write!(self.text, "{value:?}");
        }
    }

    /// Errors are rare, and hold what others said.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let is_first = self.text.is_empty();
        let mut theirs = DefaultVisitor::new(Writer::new(&mut self.text), is_first);
        theirs.record_error(field, value);
        let _infallible = theirs.finish();
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.begin(field);
        let _infallible = write!(self.text, "{value:?}");
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log() {
        let error = io::Error::other("it\u{1b}[31m broke");
        tracing::info!(a.b = "x", n = 1, flag = true, "all is well");
        tracing::warn!(quoted = "a \"b\"\n\u{e9}\u{1b}", error = &error as &dyn Error, %error);
        tracing::info!("{} of {}", 1, 2);
    }

    #[test]
    fn lines_are_written_as_tracing_writes_them() {
        let (ours, theirs) = (Lines::default(), Lines::default());
        let builder = || tracing_subscriber::fmt().with_ansi(false).without_time();
        let writer = |lines: &Lines| {
            let lines = lines.clone();
            move || lines.clone()
        };
        let subscriber = builder().fmt_fields(Fields).with_writer(writer(&ours));
        tracing::subscriber::with_default(subscriber.finish(), log);
        let subscriber = builder().with_writer(writer(&theirs));
        tracing::subscriber::with_default(subscriber.finish(), log);
        let text = |lines: Lines| String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text(ours), text(theirs));
    }
}
