//! Lexical containment of paths in folders. The file system is not consulted, so
//! symbolic links are not followed. Pure.

type Separators = &'static [char];

/// Returns whether `path` lies in one of `folders`. A relative path starts from the
/// agent's working directory: `directory`, if it is known.
pub(super) fn is_within(path: &str, folders: &[String], directory: Option<&str>) -> bool {
    // `\` separates on Windows only, so the path must lie inside under both readings.
    let readings: [Separators; 2] = [&['/', '\\'], &['/']];
    readings.into_iter().all(|separators| {
        let Some(path) = resolve(path, directory, separators) else {
            return false;
        };
        let inside = |folder: &String| {
            let folder = resolve(folder, directory, separators);
            folder.is_some_and(|folder| {
                folder.root == path.root && path.segments.starts_with(&folder.segments)
            })
        };
        folders.iter().any(inside)
    })
}

/// A path without `.` and `..`.
#[derive(Debug, PartialEq, Eq)]
struct Resolved {
    root: Root,
    segments: Vec<String>,
}

/// The start of a path.
#[derive(Debug, PartialEq, Eq)]
enum Root {
    FileSystem,
    /// A drive letter of Windows.
    Drive(String),
    /// The home directory of a user; of the current one if empty.
    Home(String),
    /// An unknown working directory.
    WorkingDirectory,
}

/// Resolves `.` and `..`. Returns `None` if the path leaves its root or is ambiguous.
/// `separators` apply to paths from the root of the file system.
fn resolve(path: &str, directory: Option<&str>, separators: Separators) -> Option<Resolved> {
    if is_ambiguous(path) {
        return None;
    }
    let (root, rest) = split_root(path)?;
    let mut resolved = match (root, directory) {
        (Root::WorkingDirectory, Some(directory)) if is_absolute(directory) => {
            resolve(directory, None, separators)?
        }
        (root, _) => Resolved {
            root,
            segments: Vec::new(),
        },
    };
    let separators = match resolved.root {
        Root::FileSystem => separators,
        Root::Drive(_) | Root::Home(_) | Root::WorkingDirectory => &['/', '\\'],
    };
    for segment in rest.split(separators) {
        match segment {
            "" | "." => (),
            ".." => drop(resolved.segments.pop()?),
            // Windows ignores trailing spaces and dots, as in `.. ` and `...`.
            dots if dots.chars().all(|letter| letter == '.' || letter == ' ') => return None,
            name => resolved.segments.push(name.to_owned()),
        }
    }
    Some(resolved)
}

/// Returns whether a shell or agent may expand or trim the path to another one.
fn is_ambiguous(path: &str) -> bool {
    let is_special = |letter: char| letter.is_control() || matches!(letter, '$' | '%');
    path.is_empty() || path.trim() != path || path.contains(is_special)
}

fn is_absolute(path: &str) -> bool {
    !matches!(split_root(path), None | Some((Root::WorkingDirectory, _)))
}

fn split_root(path: &str) -> Option<(Root, &str)> {
    if let Some(home) = path.strip_prefix('~') {
        let (user, rest) = home.split_at(home.find(['/', '\\']).unwrap_or(home.len()));
        return Some((Root::Home(user.to_owned()), rest));
    }
    if path.starts_with("\\\\") {
        return None;
    }
    if let Some((drive, rest)) = path.split_once(':') {
        let letter = drive.len() == 1 && drive.chars().all(|letter| letter.is_ascii_alphabetic());
        let absolute = rest.starts_with(['/', '\\']);
        // `file:///etc` and `C:x` cannot be compared with a folder.
        return (letter && absolute).then(|| (Root::Drive(drive.to_ascii_lowercase()), rest));
    }
    if path.starts_with(['/', '\\']) {
        return Some((Root::FileSystem, path));
    }
    Some((Root::WorkingDirectory, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, folder: &str, expected: bool) {
        let found = is_within(path, &[folder.to_owned()], None);
        assert_eq!(found, expected, "{path} in {folder}");
    }

    #[test]
    fn a_path_below_a_folder_is_within_it() {
        check("/repo/a/b.rs", "/repo", true);
        check("/repo", "/repo/", true);
        check("//repo/./a/../b", "/repo", true);
        check("src/main.rs", ".", true);
        check("src/a/../main.rs", "src", true);
        check("~/notes", "~", true);
        check("C:\\Work\\a", "c:/Work", true);
        check("src\\main.rs", "src", true);
        check("/repo/a b/x .rs", "/repo", true);
    }

    #[test]
    fn a_path_that_may_leave_the_folder_is_not_within_it() {
        check("/repo/../etc/passwd", "/repo", false);
        check("/repository", "/repo", false);
        check("/repo\\..\\etc", "/repo", false);
        check("../x", ".", false);
        check("src/../../x", ".", false);
        check("/etc/passwd", ".", false);
        check("~/x", ".", false);
        check("~root/x", "~", false);
        check("$HOME/x", ".", false);
        check("%USERPROFILE%\\x", ".", false);
        check("file:///etc/passwd", ".", false);
        check("D:\\x", "C:\\", false);
        check("", ".", false);
        check("a\0b", ".", false);
        check(" /etc/passwd", ".", false);
        check("a\n", ".", false);
        check("/repo/.. /.. /etc", "/repo", false);
        check("/repo/.../x", "/repo", false);
        check("/repo\\x", "/repo", false);
        check("/repo/a\\..\\..\\..\\etc", "/repo", false);
        check("/repo/a\u{2215}..\u{2215}x", "/repo", true);
    }

    #[test]
    fn a_relative_path_starts_from_a_known_working_directory() {
        let inside =
            |path: &str, folder: &str| is_within(path, &[folder.to_owned()], Some("/repo/app"));

        assert!(inside("src/a", "/repo"));
        assert!(inside("../lib", "/repo"));
        assert!(inside("/repo/app/x", "."));
        assert!(!inside("../lib", "."));
        assert!(!inside("../../x", "/repo"));
    }
}
