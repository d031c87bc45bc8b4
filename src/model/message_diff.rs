//! Which of the messages a hook returned is which of those it was shown (hook
//! protocol, section 6). Pure.

use super::Message;

/// What became of the messages, in the order of the returned list.
#[derive(Debug, PartialEq, Eq)]
pub struct Alignment {
    /// For each shown message the returned one that is it; none if deleted.
    pub kept: Vec<Option<usize>>,
}

/// Above this many comparisons the longest common subsequence is not looked
/// for, and what lies between the common ends is paired by role alone.
const MOST_COMPARISONS: usize = 4_000_000;

/// Pairs shown with returned messages: by position if there are as many, else
/// by the longest common subsequence, and in its gaps by role.
pub fn align(shown: &[Message], returned: &[Message]) -> Alignment {
    if shown.len() == returned.len() {
        let kept = (0..shown.len()).map(Some).collect();
        return Alignment { kept };
    }
    let mut kept = vec![None; shown.len()];
    let same = pairs(shown, returned, |a, b| a == b);
    let mut start = (0, 0);
    let end = (shown.len(), returned.len());
    for (old, new) in same.into_iter().chain([end]) {
        let gap_old = shown.get(start.0..old).unwrap_or_default();
        let gap_new = returned.get(start.1..new).unwrap_or_default();
        for (a, b) in pairs(gap_old, gap_new, |a, b| a.role == b.role) {
            set(&mut kept, start.0 + a, start.1 + b);
        }
        set(&mut kept, old, new);
        start = (old + 1, new + 1);
    }
    Alignment { kept }
}

/// Positions beyond the end, such as the end itself, are left out.
fn set(kept: &mut [Option<usize>], old: usize, new: usize) {
    if let Some(slot) = kept.get_mut(old) {
        *slot = Some(new);
    }
}

/// The positions of a longest common subsequence under `same`.
fn pairs(
    old: &[Message],
    new: &[Message],
    same: impl Fn(&Message, &Message) -> bool,
) -> Vec<(usize, usize)> {
    let head = common(old.iter(), new.iter(), &same);
    let (old_rest, new_rest) = (rest(old, head), rest(new, head));
    let tail = common(old_rest.iter().rev(), new_rest.iter().rev(), &same);
    let old_middle = old_rest.get(..old_rest.len() - tail).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - tail).unwrap_or_default();

    let mut found: Vec<(usize, usize)> = (0..head).map(|it| (it, it)).collect();
    let middle = longest(old_middle, new_middle, &same);
    found.extend(middle.into_iter().map(|(a, b)| (head + a, head + b)));
    let ends = (old.len() - tail, new.len() - tail);
    found.extend((0..tail).map(|it| (ends.0 + it, ends.1 + it)));
    found
}

fn rest(list: &[Message], from: usize) -> &[Message] {
    list.get(from..).unwrap_or_default()
}

fn common<'a>(
    a: impl Iterator<Item = &'a Message>,
    b: impl Iterator<Item = &'a Message>,
    same: impl Fn(&Message, &Message) -> bool,
) -> usize {
    a.zip(b).take_while(|(a, b)| same(a, b)).count()
}

/// The textbook table of lengths, walked from the start.
fn longest(
    old: &[Message],
    new: &[Message],
    same: impl Fn(&Message, &Message) -> bool,
) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    if old.is_empty() || new.is_empty() || old.len() * new.len() > MOST_COMPARISONS {
        return found;
    }
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    let at = |lengths: &[u32], a: usize, b: usize| lengths.get(a * width + b).copied();
    for (a, left) in old.iter().enumerate().rev() {
        for (b, right) in new.iter().enumerate().rev() {
            let length = if same(left, right) {
                at(&lengths, a + 1, b + 1).map(|it| it + 1)
            } else {
                at(&lengths, a + 1, b).max(at(&lengths, a, b + 1))
            };
            if let Some(slot) = lengths.get_mut(a * width + b) {
                *slot = length.unwrap_or_default();
            }
        }
    }
    let (mut a, mut b) = (0, 0);
    while let (Some(left), Some(right)) = (old.get(a), new.get(b)) {
        if same(left, right) {
            found.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if at(&lengths, a + 1, b) >= at(&lengths, a, b + 1) {
            a += 1;
        } else {
            b += 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn messages(texts: &str) -> Vec<Message> {
        let message = |it: &str| Message {
            role: if it.starts_with('m') {
                Role::Model
            } else {
                Role::User
            },
            content: it.to_owned(),
        };
        texts.split_whitespace().map(message).collect()
    }

    #[track_caller]
    fn check(shown: &str, returned: &str, expected: &[Option<usize>]) {
        assert_eq!(align(&messages(shown), &messages(returned)).kept, expected);
    }

    #[test]
    fn as_many_are_paired_by_position() {
        check("u1 m1 u2", "u9 m1 u2", &[Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn deletions_and_insertions_are_found() {
        check("u1 m1 u2", "m1 u2", &[None, Some(0), Some(1)]);
        check("u1 m1", "u0 u1 m1", &[Some(1), Some(2)]);
        check("u1 m1 u2", "u1 m1 u2 u3", &[Some(0), Some(1), Some(2)]);
        check(
            "u1 m1 u2 m2 u3",
            "u1 u3",
            &[Some(0), None, None, None, Some(1)],
        );
    }

    #[test]
    fn a_changed_message_beside_a_deleted_one_is_paired_by_role() {
        check("u1 m1 u2", "m9 u2", &[None, Some(0), Some(1)]);
        check(
            "u1 m1 u2 m2",
            "u1 m1 m2",
            &[Some(0), Some(1), None, Some(2)],
        );
    }

    #[test]
    fn a_huge_history_is_still_aligned() {
        let numbered = |numbers: std::ops::Range<u32>| -> Vec<Message> {
            let texts: Vec<String> = numbers.map(|it| format!("u{it}")).collect();
            messages(&texts.join(" "))
        };
        let aligned = align(&numbered(0..3000), &numbered(5000..8001));
        assert_eq!(aligned.kept.len(), 3000);
    }
}
