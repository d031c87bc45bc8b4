//! Whether a path lies in a folder, by its text alone: no file is looked at, so
//! symbolic links are not followed. Pure.

/// What separates in paths.
type Separators = &'static [char];

/// Whether `path` lies in one of `folders`. A path that is not absolute starts
/// from the agent's working directory: `directory` if it is known.
pub(super) fn lies_in(path: &str, folders: &[String], directory: Option<&str>) -> bool {
    // Windows knows `/repo\a`, too; elsewhere that is no file in `/repo`.
    let readings: [Separators; 2] = [&['/', '\\'], &['/']];
    readings.into_iter().all(|separators| {
        let Some(path) = resolve(path, directory, separators) else {
            return false;
        };
        let inside = |folder: &String| {
            let folder = resolve(folder, directory, separators);
            folder.is_some_and(|it| it.root == path.root && path.segments.starts_with(&it.segments))
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

/// What a path starts from.
#[derive(Debug, PartialEq, Eq)]
enum Root {
    /// The root of the file system.
    System,
    /// A drive of Windows, or a share.
    Drive(String),
    /// The home of somebody.
    Home(String),
    /// A working directory that is not known.
    WorkingDirectory,
}

/// None if the path leads out of what it starts from, or could be read in two
/// ways. `separators` are those below the root of a file system.
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
        Root::System => separators,
        Root::Drive(_) | Root::Home(_) | Root::WorkingDirectory => &['/', '\\'],
    };
    for segment in rest.split(separators) {
        match segment {
            "" | "." => (),
            ".." => drop(resolved.segments.pop()?),
            // Windows takes the end of `.. ` and `...` away.
            it if it.chars().all(|it| it == '.' || it == ' ') => return None,
            name => resolved.segments.push(name.to_owned()),
        }
    }
    Some(resolved)
}

/// What shells and agents may expand, or trim, means something else later.
fn is_ambiguous(path: &str) -> bool {
    let is_special = |it: char| it.is_control() || matches!(it, '$' | '%');
    path.is_empty() || path.trim() != path || path.contains(is_special)
}

fn is_absolute(path: &str) -> bool {
    !matches!(split_root(path), None | Some((Root::WorkingDirectory, _)))
}

fn split_root(path: &str) -> Option<(Root, &str)> {
    if let Some(home) = path.strip_prefix('~') {
        let (whose, rest) = home.split_at(home.find(['/', '\\']).unwrap_or(home.len()));
        return Some((Root::Home(whose.to_owned()), rest));
    }
    if path.starts_with("\\\\") {
        return None;
    }
    if let Some((drive, rest)) = path.split_once(':') {
        let letter = drive.len() == 1 && drive.chars().all(|it| it.is_ascii_alphabetic());
        let absolute = rest.starts_with(['/', '\\']);
        // `file:///etc` and `C:x` are nothing that can be compared.
        return (letter && absolute).then(|| (Root::Drive(drive.to_ascii_lowercase()), rest));
    }
    if path.starts_with(['/', '\\']) {
        return Some((Root::System, path));
    }
    Some((Root::WorkingDirectory, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, folder: &str, expected: bool) {
        let found = lies_in(path, &[folder.to_owned()], None);
        assert_eq!(found, expected, "{path} in {folder}");
    }

    #[test]
    fn what_lies_in_a_folder_does() {
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
    fn what_leads_out_does_not() {
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
    fn a_known_working_directory_counts() {
        let inside =
            |path: &str, folder: &str| lies_in(path, &[folder.to_owned()], Some("/repo/app"));

        assert!(inside("src/a", "/repo"));
        assert!(inside("../lib", "/repo"));
        assert!(inside("/repo/app/x", "."));
        assert!(!inside("../lib", "."));
        assert!(!inside("../../x", "/repo"));
    }
}
