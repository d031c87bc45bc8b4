//! The header: the file key wrapped for each recipient, and its authentication code.

use std::io::{self, BufRead, Read};

use aws_lc_rs::hmac;
use data_encoding::BASE64_NOPAD;

use crate::{
    DecryptError,
    file_key::FileKey,
    key::{Identity, Recipient, WrappedKey},
};

const VERSION_LINE: &str = "age-encryption.org/v1";

const STANZA_TYPE: &str = "X25519";

/// Characters of each line of a stanza's body but the last.
const BODY_COLUMNS: usize = 64;

/// Most bytes of a header.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Returns the header of a file.
pub(crate) fn write(file_key: &FileKey, recipients: &[Recipient]) -> io::Result<String> {
    let mut header = format!("{VERSION_LINE}\n");
    for recipient in recipients {
        let wrapped = recipient.wrap(file_key);
        let wrapped = wrapped.map_err(|_| io::Error::other("key agreement failed"))?;
        let share = BASE64_NOPAD.encode(&wrapped.share);
        let body = BASE64_NOPAD.encode(&wrapped.body);
        header.push_str(&["-> ", STANZA_TYPE, " ", &share, "\n", &body, "\n"].concat());
    }
    header += "---";
    let mac = hmac::sign(&file_key.mac_key()?, header.as_bytes());
    let mac = BASE64_NOPAD.encode(mac.as_ref());
    Ok([&*header, " ", &mac, "\n"].concat())
}

/// Reads a header and returns the file key.
pub(crate) fn read(
    source: &mut impl BufRead,
    identities: &[Identity],
) -> Result<FileKey, DecryptError> {
    let mut lines = HeaderLines {
        source: source.take(MAX_HEADER_BYTES),
        read: String::new(),
    };
    if lines.next()? != VERSION_LINE {
        return Err(DecryptError::Header("unknown version"));
    }
    let mut stanzas = Vec::new();
    let mac = loop {
        let line = lines.next()?;
        if let Some(mac) = line.strip_prefix("--- ") {
            break decode(mac)?;
        }
        let arguments = line.strip_prefix("-> ");
        let arguments = arguments.ok_or(DecryptError::Header("no stanza"))?;
        let share = match arguments.split(' ').collect::<Vec<_>>()[..] {
            [STANZA_TYPE, share] => Some(share.to_owned()),
            _ => None,
        };
        let body = read_body(&mut lines)?;
        if let Some(share) = share {
            let share = decode(&share)?.try_into();
            let share = share.map_err(|_| DecryptError::Header("wrong length of a share"))?;
            stanzas.push(WrappedKey { share, body });
        }
    };
    let mut tried = identities
        .iter()
        .flat_map(|identity| stanzas.iter().filter_map(|stanza| identity.unwrap(stanza)));
    let file_key = tried.next().ok_or(DecryptError::NoMatch)?;
    let end = lines.read.rfind(' ').unwrap_or_default();
    let signed = lines.read.get(..end).unwrap_or_default();
    hmac::verify(&file_key.mac_key()?, signed.as_bytes(), &mac)
        .map_err(|_| DecryptError::HeaderMac)?;
    Ok(file_key)
}

/// Reads the lines of a body, of which only the last is short.
fn read_body<R: BufRead>(lines: &mut HeaderLines<R>) -> Result<Vec<u8>, DecryptError> {
    let mut text = String::new();
    loop {
        let line = lines.next()?;
        text += &line;
        if line.len() < BODY_COLUMNS {
            return decode(&text);
        }
        if line.len() > BODY_COLUMNS {
            return Err(DecryptError::Header("line too long"));
        }
    }
}

fn decode(text: &str) -> Result<Vec<u8>, DecryptError> {
    let decoded = BASE64_NOPAD.decode(text.as_bytes());
    decoded.map_err(|_| DecryptError::Header("no base64"))
}

struct HeaderLines<R> {
    source: io::Take<R>,
    /// Everything that was read.
    read: String,
}

impl<R: BufRead> HeaderLines<R> {
    /// Returns the next line.
    fn next(&mut self) -> Result<String, DecryptError> {
        let start = self.read.len();
        let mut line = Vec::new();
        self.source.read_until(b'\n', &mut line)?;
        let line = String::from_utf8(line).map_err(|_| DecryptError::Header("no text"))?;
        self.read += &line;
        let line = self
            .read
            .get(start..)
            .and_then(|line| line.strip_suffix('\n'));
        line.map(str::to_owned)
            .ok_or(DecryptError::Header("end of the file"))
    }
}
