//! Formats log lines as text: UTC timestamps, and fields as `name=value`.
//!
//! The output is that of `tracing_subscriber`'s default formatter, for about half of
//! the instructions; one such line is written for every request. In messages and values, it
//! also has escapes for line feeds and other invisible characters.

use std::{
    borrow::Cow,
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

use crate::invisible_char::escape_invisible;

/// Usual length of a line's fields, in bytes.
const FIELDS_CAPACITY: usize = 256;

/// Name of the field that `tracing` uses for the message.
const MESSAGE_FIELD: &str = "message";

/// Writes UTC timestamps with microseconds.
#[derive(Debug)]
pub(super) struct UtcTime;

/// Writes the message and the fields of an event.
#[derive(Debug)]
pub(super) struct TextFields;

struct FieldVisitor {
    text: String,
}

impl FormatTime for UtcTime {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{:.6}", Timestamp::now())
    }
}

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor {
            text: String::with_capacity(FIELDS_CAPACITY),
        };
        fields.record(&mut visitor);
        writer.write_str(&visitor.text)
    }
}

impl FieldVisitor {
    fn start_field(&mut self, field: &Field) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        if field.name() != MESSAGE_FIELD {
            self.text.push_str(field.name());
            self.text.push('=');
        }
    }

    /// Escapes invisible characters in what was written since the text had this length.
    fn escape_from(&mut self, start: usize) {
        let written = self.text.get(start..).unwrap_or_default();
        if let Cow::Owned(escaped) = escape_invisible(written) {
            self.text.truncate(start);
            self.text.push_str(&escaped);
        }
    }
}

// Writing into a `String` cannot fail.
impl Visit for FieldVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
        self.start_field(field);
        if field.name() == MESSAGE_FIELD {
            self.text.push_str(&escape_invisible(value));
        } else if value.bytes().all(is_plain) {
            self.text.push('"');
            self.text.push_str(value);
            self.text.push('"');
        } else {
            let _infallible = write!(self.text, "{value:?}");
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        // The default visitor escapes control characters of foreign errors.
        let (start, is_first) = (self.text.len(), self.text.is_empty());
        let mut visitor = DefaultVisitor::new(Writer::new(&mut self.text), is_first);
        visitor.record_error(field, value);
        let _infallible = visitor.finish();
        self.escape_from(start);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.start_field(field);
        let start = self.text.len();
        let _infallible = write!(self.text, "{value:?}");
        self.escape_from(start);
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
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log_examples() {
        let error = io::Error::other("it\u{1b}[31m broke");
        tracing::info!(a.b = "x", n = 1, flag = true, "all is well");
        tracing::warn!(
            quoted = "a \"b\"\n\u{e9}\u{1b}",
            error = &error as &dyn Error
        );
        tracing::info!("{} of {}", 1, 2);
    }

    #[test]
    fn messages_and_values_stay_in_their_line() {
        let written = Buffer::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .without_time()
            .with_target(false)
            .fmt_fields(TextFields)
            .with_writer(move || writer.clone());

        tracing::subscriber::with_default(subscriber.finish(), || {
            let forged = "a\nERROR b\u{1b}[31m\u{202e}\u{e9}";
            let error = io::Error::other("a\nERROR b");
            let error = &error as &dyn Error;
            tracing::info!(name = %forged, error, "{forged}");
        });

        let line = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let escaped = "a\\nERROR b\\u{1b}[31m\\u{202e}\u{e9}";
        assert_eq!(
            line,
            format!(" INFO {escaped} name={escaped} error=a\\nERROR b\n")
        );
    }

    #[test]
    fn lines_equal_those_of_the_default_formatter() {
        let (ours, theirs) = (Buffer::default(), Buffer::default());
        let builder = || tracing_subscriber::fmt().with_ansi(false).without_time();
        let writer = |buffer: &Buffer| {
            let buffer = buffer.clone();
            move || buffer.clone()
        };

        let subscriber = builder().fmt_fields(TextFields).with_writer(writer(&ours));
        tracing::subscriber::with_default(subscriber.finish(), log_examples);
        let subscriber = builder().with_writer(writer(&theirs));
        tracing::subscriber::with_default(subscriber.finish(), log_examples);

        let text = |buffer: Buffer| String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text(ours), text(theirs));
    }
}
