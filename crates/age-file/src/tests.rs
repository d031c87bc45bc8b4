use std::{
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use data_encoding::BASE64;
use proptest::prelude::*;

use super::*;

const CHUNK: usize = 64 * 1024;

/// The private key of 32 bytes 0x42, and its public key.
const KEY: &str = "AGE-SECRET-KEY-1GFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPYYSJZGFPQ4EGAEX";
const RECIPIENT: &str = "age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj";

/// Keys of another recipient.
const OTHER_KEY: &str =
    "AGE-SECRET-KEY-1RHQXGMWXPQ7LU272J3WADENGYJ0CDSMPNTQWX65RR3728ZE9U5MQ3VZCY7";
const OTHER_RECIPIENT: &str = "age10putptrlx253u69w4947r7uyz78hs7qzd68p74pcmj2j2eq3edrqxzr0j3";

/// `printf 'hello hookgate\n' | age -r RECIPIENT -r OTHER_RECIPIENT`, age 1.1.1.
const VECTOR: &str = "YWdlLWVuY3J5cHRpb24ub3JnL3YxCi0+IFgyNTUxOSBYcDM4Z3hYV3FmQWlnOUc1N3NOcTR1SG9xVVlrVU9hdDlQUDFCdkIycVRNCkp0bXBrNzhRNTlsclBTeEN0MWE5R3ZpVmNmM2RQZnlGZElUL0xYSWZDdHcKLT4gWDI1NTE5IHZya3I2V0VqU1Y0eG5UWlJPSEg3c2sxc3kzNlBpRzE3T1JYOFRNcyt6SEkKc2pHMkJjbFFCQkc1REZKc3pvZkRDRzZlU1JWZWNOTktSbFBDSXd3MnRUbwotLS0gc2ZXZFQ3SExhNUt0Q1NjTEUrZUlDOWNkNE12bjd5dlZWaWJudU5QTGRBOAouAtS4vUBw0QHcS8lMApQ5ZgCjIgZnPfjkbLQTjjhEmvidwMEQABO0MtB3blLAeA==";

fn encrypt(text: &[u8], recipients: &[&str]) -> Vec<u8> {
    let recipients: Vec<Recipient> = recipients
        .iter()
        .map(|text| text.parse().unwrap())
        .collect();
    let mut encryptor = Encryptor::new(Vec::new(), &recipients).unwrap();
    encryptor.write_all(text).unwrap();
    encryptor.finish().unwrap()
}

/// Decrypts a file. Returns the text before its end or an error, and the error.
fn decrypt(file: &[u8], key: &str) -> Result<(Vec<u8>, Option<io::ErrorKind>), DecryptError> {
    let identities = Identity::parse_file(key).unwrap();
    let mut text = Vec::new();
    let read = Decryptor::new(file, &identities)?.read_to_end(&mut text);
    Ok((text, read.err().map(|error| error.kind())))
}

fn decrypted(file: &[u8]) -> Vec<u8> {
    let (text, error) = decrypt(file, KEY).unwrap();
    assert_eq!(error, None);
    text
}

/// Returns the length of the header and the salt.
fn payload_start(file: &[u8]) -> usize {
    let mac = file
        .windows(5)
        .position(|bytes| bytes == b"\n--- ")
        .unwrap();
    let end = file[mac + 1..]
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap();
    mac + 1 + end + 1 + 16
}

#[test]
fn a_file_of_the_age_program_is_decrypted_with_either_key() {
    let file = BASE64.decode(VECTOR.as_bytes()).unwrap();

    for key in [
        KEY,
        OTHER_KEY,
        &format!("# a comment\n\n{OTHER_KEY}\r\n{KEY}\n"),
    ] {
        let (text, error) = decrypt(&file, key).unwrap();
        assert_eq!((&*text, error), (b"hello hookgate\n".as_slice(), None));
    }
}

#[test]
fn texts_of_every_length_around_a_chunk_are_decrypted() {
    for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7] {
        let text: Vec<u8> = (0..=250).cycle().take(length).collect();
        assert_eq!(decrypted(&encrypt(&text, &[RECIPIENT])), text, "{length}");
    }
}

#[test]
fn a_file_for_other_recipients_is_not_decrypted() {
    let file = encrypt(b"text", &[OTHER_RECIPIENT]);

    assert!(matches!(decrypt(&file, KEY), Err(DecryptError::NoMatch)));
}

#[test]
fn an_added_stanza_of_another_type_breaks_the_header_mac() {
    let file = encrypt(b"text", &[RECIPIENT]);
    let (first, rest) = file.split_at("age-encryption.org/v1\n".len());
    let long = "A".repeat(64);
    let grease = format!("-> grease some arguments\n{long}\n\n");
    let changed = [first, grease.as_bytes(), rest].concat();

    // The stanza is skipped, and the authentication code shows that it was added.
    assert!(matches!(
        decrypt(&changed, KEY),
        Err(DecryptError::HeaderMac)
    ));
}

#[test]
fn a_truncated_file_yields_its_whole_chunks_and_an_error() {
    let text = vec![7; 3 * CHUNK];
    let file = encrypt(&text, &[RECIPIENT]);
    let start = payload_start(&file);

    let after_two = start + 2 * (CHUNK + 16);
    let (read, error) = decrypt(&file[..after_two], KEY).unwrap();
    assert_eq!(
        (read.len(), error),
        (2 * CHUNK, Some(io::ErrorKind::UnexpectedEof))
    );

    let (read, error) = decrypt(&file[..after_two + 100], KEY).unwrap();
    assert_eq!(
        (read.len(), error),
        (2 * CHUNK, Some(io::ErrorKind::InvalidData))
    );

    let (read, error) = decrypt(&file[..start], KEY).unwrap();
    assert_eq!((read.len(), error), (0, Some(io::ErrorKind::UnexpectedEof)));

    assert!(decrypt(&file[..start - 1], KEY).is_err());
}

#[test]
fn moved_chunks_and_additional_bytes_are_an_error() {
    let text = vec![7; 2 * CHUNK + 5];
    let file = encrypt(&text, &[RECIPIENT]);
    let start = payload_start(&file);
    let (head, payload) = file.split_at(start);
    let (first, rest) = payload.split_at(CHUNK + 16);
    let (second, last) = rest.split_at(CHUNK + 16);

    let swapped = [head, second, first, last].concat();
    let longer = [&*file, b"x"].concat();

    assert_eq!(
        decrypt(&swapped, KEY).unwrap().1,
        Some(io::ErrorKind::InvalidData)
    );
    assert_eq!(
        decrypt(&longer, KEY).unwrap().1,
        Some(io::ErrorKind::InvalidData)
    );
}

#[test]
fn malformed_headers_are_an_error() {
    for header in [
        "",
        "age-encryption.org/v2\n",
        "age-encryption.org/v1\n",
        "age-encryption.org/v1\nX25519 a\n",
        "age-encryption.org/v1\n-> X25519 !\n\n--- \n",
        "age-encryption.org/v1\n-> X25519 AAAA\n\n--- AAAA\n",
    ] {
        let read = decrypt(header.as_bytes(), KEY);
        assert!(matches!(read, Err(DecryptError::Header(_))), "{header}");
    }
    assert!(matches!(
        decrypt(b"age-encryption.org/v1\n--- AAAA\n", KEY),
        Err(DecryptError::NoMatch)
    ));
}

#[test]
fn keys_are_parsed_strictly() {
    assert!(RECIPIENT.parse::<Recipient>().is_ok());
    for text in [
        KEY,
        &RECIPIENT.to_uppercase(),
        RECIPIENT.trim_start_matches('a'),
        "age1",
        "ssh-ed25519 AAAA",
    ] {
        assert_eq!(
            text.parse::<Recipient>(),
            Err(KeyError::Recipient),
            "{text}"
        );
    }
    let parse = |text: &str| {
        Identity::parse_file(text)
            .map(|keys| keys.len())
            .unwrap_err()
    };
    assert_eq!(parse("# nothing\n"), KeyError::NoIdentity);
    assert_eq!(parse(&format!("{KEY}\n{RECIPIENT}")), KeyError::Identity(2));
    assert!(!format!("{:?}", Identity::parse_file(KEY)).contains("66"));
}

#[test]
fn the_age_program_reads_and_writes_the_same_files() {
    if Command::new("age").arg("--version").output().is_err() {
        let note = b"skipped: the program `age` is not installed\n";
        io::stdout().write_all(note).unwrap();
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.txt");
    std::fs::write(&keys, KEY).unwrap();
    for length in [0, 1, 1000, CHUNK, 2 * CHUNK, 200_000] {
        let text: Vec<u8> = (0..=250).cycle().take(length).collect();

        let own = encrypt(&text, &[OTHER_RECIPIENT, RECIPIENT]);
        assert!(
            age(&["--decrypt", "--identity"], &keys, &own) == text,
            "{length}"
        );
        let theirs = age(
            &["--recipient", RECIPIENT, "--recipient", OTHER_RECIPIENT],
            Path::new("-"),
            &text,
        );
        assert!(decrypted(&theirs) == text, "{length}");
    }
}

fn age(arguments: &[&str], last: &Path, input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("age");
    let command = command.args(arguments).arg(last);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    output.stdout
}

proptest! {
    #[test]
    fn a_changed_byte_never_yields_another_text(at in 0_usize..1000, flip in 1_u8..=255) {
        let text = b"0123456789".repeat(50);
        let mut file = encrypt(&text, &[RECIPIENT]);
        let at = at % file.len();
        file[at] ^= flip;
        if let Ok((read, error)) = decrypt(&file, KEY) {
            prop_assert!(read.is_empty() && error.is_some());
        }
    }

    #[test]
    fn random_bytes_after_the_version_line_are_an_error(
        bytes in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let file = [b"age-encryption.org/v1\n".as_slice(), &bytes].concat();
        prop_assert!(decrypt(&file, KEY).is_err());
    }
}
