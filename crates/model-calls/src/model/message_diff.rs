//! Aligns the messages a hook returned with those it was given, by an
//! edit-distance diff (hook protocol, section 6). Pure.

use super::message::Message;

/// Above this many comparisons no longest common subsequence is computed, and
/// messages between the common ends are paired by role alone.
const MAX_COMPARISONS: usize = 4_000_000;

/// Returns for each shown message the index of its counterpart among the
/// `returned` ones; `None` if it was deleted.
///
/// Lists of equal length are paired by position, others by the longest common
/// subsequence, and in its gaps by role.
pub fn align(shown: &[Message], returned: &[Message]) -> Vec<Option<usize>> {
    if shown.len() == returned.len() {
        return (0..shown.len()).map(Some).collect();
    }
    let mut aligned = vec![None; shown.len()];
    let equal = common_subsequence(shown, returned, |a, b| a == b);
    let mut start = (0, 0);
    let end = (shown.len(), returned.len());
    for (old, new) in equal.into_iter().chain([end]) {
        let old_gap = shown.get(start.0..old).unwrap_or_default();
        let new_gap = returned.get(start.1..new).unwrap_or_default();
        for (a, b) in common_subsequence(old_gap, new_gap, |a, b| a.role == b.role) {
            set(&mut aligned, start.0 + a, start.1 + b);
        }
        set(&mut aligned, old, new);
        start = (old + 1, new + 1);
    }
    aligned
}

/// Ignores indices beyond the end, such as the end itself.
fn set(aligned: &mut [Option<usize>], old: usize, new: usize) {
    if let Some(slot) = aligned.get_mut(old) {
        *slot = Some(new);
    }
}

/// Returns the index pairs of a longest common subsequence under `same`.
fn common_subsequence(
    old: &[Message],
    new: &[Message],
    same: impl Fn(&Message, &Message) -> bool,
) -> Vec<(usize, usize)> {
    let head = common_length(old.iter(), new.iter(), &same);
    let (old_rest, new_rest) = (rest(old, head), rest(new, head));
    let tail = common_length(old_rest.iter().rev(), new_rest.iter().rev(), &same);
    let old_middle = old_rest.get(..old_rest.len() - tail).unwrap_or_default();
    let new_middle = new_rest.get(..new_rest.len() - tail).unwrap_or_default();

    let mut pairs: Vec<(usize, usize)> = (0..head).map(|index| (index, index)).collect();
    let middle = longest(old_middle, new_middle, &same);
    pairs.extend(middle.into_iter().map(|(a, b)| (head + a, head + b)));
    let ends = (old.len() - tail, new.len() - tail);
    pairs.extend((0..tail).map(|offset| (ends.0 + offset, ends.1 + offset)));
    pairs
}

fn rest(list: &[Message], from: usize) -> &[Message] {
    list.get(from..).unwrap_or_default()
}

fn common_length<'a>(
    a: impl Iterator<Item = &'a Message>,
    b: impl Iterator<Item = &'a Message>,
    same: impl Fn(&Message, &Message) -> bool,
) -> usize {
    a.zip(b).take_while(|(a, b)| same(a, b)).count()
}

/// Longest common subsequence by dynamic programming: a table of lengths, walked
/// from the start.
fn longest(
    old: &[Message],
    new: &[Message],
    same: impl Fn(&Message, &Message) -> bool,
) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    if old.is_empty() || new.is_empty() || old.len() * new.len() > MAX_COMPARISONS {
        return pairs;
    }
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    let at = |lengths: &[u32], a: usize, b: usize| lengths.get(a * width + b).copied();
    for (a, left) in old.iter().enumerate().rev() {
        for (b, right) in new.iter().enumerate().rev() {
            let length = if same(left, right) {
                at(&lengths, a + 1, b + 1).map(|length| length + 1)
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
            pairs.push((a, b));
            (a, b) = (a + 1, b + 1);
        } else if at(&lengths, a + 1, b) >= at(&lengths, a, b + 1) {
            a += 1;
        } else {
            b += 1;
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Role;

    fn messages(texts: &str) -> Vec<Message> {
        let message = |text: &str| Message {
            role: if text.starts_with('m') {
                Role::Model
            } else {
                Role::User
            },
            content: text.to_owned(),
        };
        texts.split_whitespace().map(message).collect()
    }

    #[track_caller]
    fn check(shown: &str, returned: &str, expected: &[Option<usize>]) {
        assert_eq!(align(&messages(shown), &messages(returned)), expected);
    }

    #[test]
    fn lists_of_equal_length_are_paired_by_position() {
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
            let texts: Vec<String> = numbers.map(|number| format!("u{number}")).collect();
            messages(&texts.join(" "))
        };
        let aligned = align(&numbered(0..3000), &numbered(5000..8001));
        assert_eq!(aligned.len(), 3000);
    }
}
