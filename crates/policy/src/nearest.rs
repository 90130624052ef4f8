//! The name that was probably meant. The distance counts inserted, removed, replaced and swapped characters (optimal
//! string alignment), and a name that is too far away is no suggestion.

/// The longest text that suggestions are looked for, in characters; beyond it nothing is near.
const TEXT_MAX: usize = 64;

/// The nearest of `names`, the first one when several are equally near. `None` if all differ in more than a third of
/// the characters of `text` (at least 1, at most 3).
pub(crate) fn nearest<'n>(text: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let text: Vec<char> = text.chars().take(TEXT_MAX + 1).collect();
    if text.len() > TEXT_MAX {
        return None;
    }
    let mut within = (text.len() / 3).clamp(1, 3);
    let mut best = None;
    for name in names {
        if let Some(distance) = distance(&text, name, within)
            && (best.is_none() || distance < within)
        {
            within = distance;
            best = Some(name);
        }
    }
    best
}

/// The distance between the texts if it is at most `within`.
fn distance(text: &[char], name: &str, within: usize) -> Option<usize> {
    let name: Vec<char> = name.chars().take(TEXT_MAX + 1).collect();
    if name.len().abs_diff(text.len()) > within {
        return None;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=name.len()).collect();
    for (i, &a) in text.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, &b) in name.iter().enumerate() {
            let mut least = (above[j] + usize::from(a != b)).min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a == name[j - 1] && text[i - 1] == b {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        if row.iter().all(|&cell| cell > within) {
            return None;
        }
        before = std::mem::replace(&mut above, row);
    }
    Some(above[name.len()]).filter(|&distance| distance <= within)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found() {
        let names = ["rate", "route", "key", "mode"];
        assert_eq!(nearest("rat", names), Some("rate"));
        assert_eq!(nearest("raet", names), Some("rate"));
        assert_eq!(nearest("ruote", names), Some("route"));
        assert_eq!(nearest("kye", names), Some("key"));
    }

    #[test]
    fn a_name_that_is_far_away_is_no_suggestion() {
        assert_eq!(nearest("burst", ["rate", "key"]), None);
        assert_eq!(nearest("x", ["rate"]), None);
        assert_eq!(nearest("", ["rate"]), None);
        assert_eq!(nearest(&"rate".repeat(100), ["rate"]), None);
    }

    #[test]
    fn the_first_of_equally_near_names_is_taken() {
        assert_eq!(nearest("limit-x", ["limit-a", "limit-b"]), Some("limit-a"));
    }
}
