//! The fields of a log line for people: `name=value`, as `tracing_subscriber`
//! writes them, with fewer detours: every call writes such a line.

use std::{
    error::Error,
    fmt::{self, Debug},
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
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut line = Line {
            writer,
            written: Ok(()),
            is_first: true,
        };
        fields.record(&mut line);
        line.written
    }
}

struct Line<'w> {
    writer: Writer<'w>,
    written: fmt::Result,
    is_first: bool,
}

impl Line<'_> {
    fn field(&mut self, field: &Field, write: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let separator = if self.is_first { "" } else { " " };
        self.is_first = false;
        let named = || {
            self.writer.write_str(separator)?;
            if field.name() != MESSAGE {
                self.writer.write_str(field.name())?;
                self.writer.write_char('=')?;
            }
            write(&mut self.writer)
        };
        let written = named();
        self.written = self.written.and(written);
    }
}

/// The text of a line is a field, too.
const MESSAGE: &str = "message";

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let is_plain = |it: u8| matches!(it, b' '..=b'~') && it != b'"' && it != b'\\';
        self.field(field, |writer| {
            if field.name() == MESSAGE {
                return writer.write_str(value);
            }
            if !value.bytes().all(is_plain) {
                return write!(writer, "{value:?}");
            }
            writer.write_char('"')?;
            writer.write_str(value)?;
            writer.write_char('"')
        });
    }

    /// Errors are rare, and hold what others said.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        let mut theirs = DefaultVisitor::new(self.writer.by_ref(), self.is_first);
        theirs.record_error(field, value);
        let written = theirs.finish();
        self.written = self.written.and(written);
        self.is_first = false;
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field, |writer| write!(writer, "{value:?}"));
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
