//! Tests of archives: determinism, changed bits, hostile entries.

use std::{
    collections::BTreeMap,
    fs,
    io::{Read, Write},
    os::unix::fs::PermissionsExt,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use tar::{Builder, EntryType, Header};

use super::*;

fn manifest(revision: &str) -> Manifest {
    Manifest {
        revision: revision.parse().unwrap(),
        created: "2026-11-25T16:00:00Z".parse().unwrap(),
        parent: None,
        allows_parent: false,
        requires: ">=0.1".parse().unwrap(),
        files: BTreeMap::new(),
        executable: Vec::new(),
    }
}

fn files() -> BTreeMap<String, BundleFile> {
    let file = |content: &str, is_executable| BundleFile {
        content: content.as_bytes().to_vec(),
        is_executable,
    };
    BTreeMap::from([
        ("hookgate.yaml".to_owned(), file("policies: []\n", false)),
        ("hooks/guard.sh".to_owned(), file("#!/bin/sh\n", true)),
    ])
}

fn key() -> SigningKey {
    SigningKey::from_pem(&SigningKey::generate().unwrap()).unwrap()
}

fn signed(key: &SigningKey) -> Bundle {
    let mut bundle = Bundle::build(manifest("7"), files()).unwrap();
    bundle.sign(key);
    bundle
}

/// An archive with the entries that `write` adds to the parts of a valid bundle.
fn archive(write: impl Fn(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    let bundle = Bundle::build(manifest("7"), files()).unwrap();
    append(&mut tar, "manifest.json", &bundle.manifest().to_bytes());
    for (path, file) in bundle.files() {
        append(&mut tar, path, &file.content);
    }
    write(&mut tar);
    archive::gzip(&tar.into_inner().unwrap())
}

fn append(tar: &mut Builder<Vec<u8>>, path: &str, content: &[u8]) {
    let mut header = Header::new_ustar();
    // Set as bytes, because the library refuses the paths that readers have to refuse.
    header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, content).unwrap();
}

fn link(tar: &mut Builder<Vec<u8>>, kind: EntryType) {
    let mut header = Header::new_ustar();
    header.set_path("hooks/link").unwrap();
    header.set_entry_type(kind);
    header.set_link_name("/etc/passwd").unwrap();
    header.set_size(0);
    header.set_cksum();
    tar.append(&header, &[][..]).unwrap();
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    Bundle::from_bytes(bytes).unwrap_err().to_string()
}

#[test]
fn equal_input_gives_equal_bytes_that_read_as_the_same_bundle() {
    let key = key();
    let bundle = signed(&key);

    let bytes = bundle.to_bytes().unwrap();

    assert_eq!(bytes, signed(&key).to_bytes().unwrap());
    let read = Bundle::from_bytes(&bytes).unwrap();
    assert_eq!(read, bundle);
    let public = key.public_key().unwrap();
    assert_eq!(read.verify(&[public]).unwrap(), public);
    assert_eq!(public.to_string().parse(), Ok(public));
}

#[test]
fn a_flipped_bit_in_any_byte_is_refused() {
    let key = key();
    let public = [key.public_key().unwrap()];
    let bytes = signed(&key).to_bytes().unwrap();
    for index in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[index] ^= 1 << (index % 8);

        let read = Bundle::from_bytes(&changed).and_then(|bundle| bundle.verify(&public));

        assert!(read.is_err(), "byte {index} of {}", bytes.len());
    }
}

#[test]
fn shorter_and_longer_archives_are_refused() {
    let bytes = signed(&key()).to_bytes().unwrap();
    for length in (0..bytes.len()).step_by(97) {
        assert!(Bundle::from_bytes(&bytes[..length]).is_err(), "{length}");
    }
    let more = [bytes.as_slice(), b"\0"].concat();
    assert!(Bundle::from_bytes(&more).is_err());
    let twice = [bytes.as_slice(), &bytes].concat();
    assert!(Bundle::from_bytes(&twice).is_err());
}

#[test]
fn only_the_given_keys_are_accepted() {
    let bundle = signed(&key());

    let other = key().public_key().unwrap();

    let error = bundle.verify(&[other]).unwrap_err();
    assert!(matches!(error, BundleError::Signature), "{error}");
    let unsigned = Bundle::build(manifest("7"), files()).unwrap();
    let error = unsigned.verify(&[other]).unwrap_err();
    assert!(matches!(error, BundleError::Unsigned), "{error}");
}

#[test]
fn hostile_entries_are_refused_and_named() {
    let cases: [(&str, Vec<u8>); 9] = [
        (
            "path `/etc/passwd` is absolute",
            archive(|tar| append(tar, "/etc/passwd", b"x")),
        ),
        (
            "path `hooks/../../x` has an empty part, `.` or `..`",
            archive(|tar| append(tar, "hooks/../../x", b"x")),
        ),
        (
            "path `a\\\\b` has a control character or a backslash",
            archive(|tar| append(tar, "a\\b", b"x")),
        ),
        (
            "`hooks/link` is no regular file: links, devices and folders are refused",
            archive(|tar| link(tar, EntryType::Symlink)),
        ),
        (
            "`hooks/link` is no regular file: links, devices and folders are refused",
            archive(|tar| link(tar, EntryType::Link)),
        ),
        (
            "`hooks/link` is no regular file: links, devices and folders are refused",
            archive(|tar| link(tar, EntryType::Char)),
        ),
        (
            "`hookgate.yaml` is in the archive twice",
            archive(|tar| append(tar, "hookgate.yaml", b"x")),
        ),
        (
            "`hooks/more.sh` is not in the manifest",
            archive(|tar| append(tar, "hooks/more.sh", b"x")),
        ),
        (
            "the archive is not in the form that `bundle build` writes",
            archive(|_| ()),
        ),
    ];
    for (expected, bytes) in cases {
        assert_eq!(refusal(&bytes), expected);
    }
}

#[test]
fn a_file_that_differs_from_the_manifest_is_refused_and_named() {
    let bundle = signed(&key());
    let mut tar = Vec::new();
    let bytes = bundle.to_bytes().unwrap();
    GzDecoder::new(bytes.as_slice())
        .read_to_end(&mut tar)
        .unwrap();
    let at = tar.windows(11).position(|window| window == b"policies: [");
    tar[at.unwrap()] = b'P';

    // With a new checksum of the gzip stream, which would otherwise fail first.
    let bytes = archive::gzip(&tar);

    assert_eq!(
        refusal(&bytes),
        "`hookgate.yaml` has another SHA-256 than in the manifest"
    );
}

#[test]
fn compressed_data_is_not_expanded_beyond_the_size_of_the_archive() {
    let bytes = gzip(&vec![0; 64 * 1024 * 1024]);

    assert_eq!(refusal(&bytes), "no `manifest.json`");
    assert!(bytes.len() < 100_000);
    let large = vec![0; MAX_ARCHIVE_BYTES + 1];
    assert!(matches!(
        Bundle::from_bytes(&large),
        Err(BundleError::TooLarge)
    ));
}

#[test]
fn a_path_that_is_a_file_and_a_folder_is_refused() {
    let mut files = files();
    let file = files["hookgate.yaml"].clone();
    files.insert("hooks/guard.sh/x".to_owned(), file.clone());

    let error = Bundle::build(manifest("7"), files.clone()).unwrap_err();

    assert_eq!(
        error.to_string(),
        "path `hooks/guard.sh` is both a file and a folder"
    );
    files.remove("hooks/guard.sh/x");
    files.insert("manifest.sig".to_owned(), file);
    let error = Bundle::build(manifest("7"), files).unwrap_err();
    assert_eq!(
        error.to_string(),
        "path `manifest.sig` is that of a part of the bundle"
    );
}

#[test]
fn extracted_files_are_read_only_and_a_changed_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let target = folder.path().join("bundle");

    let bundle = ExtractedBundle::new(signed(&key()), target.clone()).unwrap();

    let mode = |path: &str| {
        let metadata = fs::metadata(target.join(path)).unwrap();
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode("hookgate.yaml"), mode("hooks/guard.sh"), mode("")),
        (0o400, 0o500, 0o700)
    );
    bundle.check().unwrap();
    fs::remove_file(target.join("hooks/guard.sh")).unwrap();
    fs::write(target.join("hooks/guard.sh"), "exit 0").unwrap();
    let error = bundle.check().unwrap_err();
    assert_eq!(
        error.to_string(),
        "`hooks/guard.sh` has another SHA-256 than in the manifest"
    );
    drop(bundle);
    assert!(!target.exists());
}

#[test]
fn a_folder_is_read_without_hidden_files_and_a_link_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |path: &str| folder.path().join(path);
    fs::create_dir_all(at(".git")).unwrap();
    fs::create_dir_all(at("hooks")).unwrap();
    fs::write(at(".git/config"), "x").unwrap();
    fs::write(at(".env"), "KEY=x").unwrap();
    fs::write(at("hooks/guard.sh"), "x").unwrap();

    let files = read_directory(folder.path()).unwrap();

    assert_eq!(files.keys().collect::<Vec<_>>(), ["hooks/guard.sh"]);
    std::os::unix::fs::symlink("/etc/passwd", at("hooks/link")).unwrap();
    let error = read_directory(folder.path()).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("`hooks/link` is no regular file")
    );
}

#[test]
fn versions_are_compared_by_number() {
    let requirement: Requirement = ">=0.9".parse().unwrap();

    assert!(requirement.allows("0.10.0"));
    assert!(requirement.allows("0.9.0"));
    assert!(!requirement.allows("0.8.12"));
    assert!(!requirement.allows("next"));
    assert!("0.9".parse::<Requirement>().is_err());
}

#[test]
fn keys_of_other_forms_are_refused() {
    let base64 = "ed25519:AAAA";

    assert_eq!(base64.parse::<PublicKey>(), Err(KeyError::Public));
    assert!(
        SigningKey::from_pem("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")
            .is_err()
    );
}

#[test]
fn a_key_of_openssl_is_read() {
    // PKCS#8 version 1 without the public key, as RFC 8410 has it in section 10.3.
    let pem = "-----BEGIN PRIVATE KEY-----\n\
               MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
               -----END PRIVATE KEY-----\n";

    let key = SigningKey::from_pem(pem).unwrap();

    let public = "ed25519:Gb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
    assert_eq!(key.public_key().unwrap().to_string(), public);
}
