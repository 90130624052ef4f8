//! A function fits on a screen. The few that don't stand in a list with their length, and the list only shrinks: a
//! listed function may not grow, and one that got shorter is written down as shorter.

use std::collections::BTreeMap;

use super::Finding;
use super::source::{after_braces, line_of, words};
use super::tree::Tree;

/// The longest a function may be, in lines from its name to its closing brace.
const LINES_MAX: usize = 70;
/// The same for tests, which may tell a longer story.
const TEST_LINES_MAX: usize = 140;
/// Functions that were longer when the rule met them: `path name lines`, one a line.
pub const LIST: &str = "crates/xtask/long-functions.txt";

/// Functions that are longer than they may be, and lines of the list that are no longer true.
pub fn too_long(tree: &Tree) -> Vec<Finding> {
    let mut listed = listed(&tree.long_functions);
    let mut findings = Vec::new();
    for (file, code) in tree.code() {
        for function in functions(&file.path, code) {
            let excused = listed.remove(&(file.path.clone(), function.name.clone()));
            findings.extend(objection(&function, excused).map(|says| Finding::at(&file.path, function.line, says)));
        }
    }
    let stale = listed.into_keys().map(|(path, name)| format!("{path} has no function {name}: strike the line"));
    findings.extend(stale.map(|says| Finding::at(LIST, 0, says)));
    findings
}

#[derive(Debug)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
    lines_max: usize,
}

fn objection(function: &Function, excused: Option<usize>) -> Option<String> {
    let Function { name, lines, lines_max, .. } = function;
    match excused {
        None if lines > lines_max => Some(format!("{name} has {lines} lines; at most {lines_max} fit on a screen")),
        Some(_) if lines <= lines_max => Some(format!("{name} fits now: strike it from {LIST}")),
        Some(before) if *lines > before => {
            Some(format!("{name} grew from {before} to {lines} lines: the list only shrinks"))
        }
        Some(before) if *lines < before => Some(format!("{name} has {lines} lines now: write that into {LIST}")),
        _ => None,
    }
}

fn listed(list: &str) -> BTreeMap<(String, String), usize> {
    let rows = list.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some(((words.next()?.to_owned(), words.next()?.to_owned()), words.next()?.parse().ok()?))
    };
    rows.filter_map(row).collect()
}

fn functions(path: &str, code: &str) -> Vec<Function> {
    let tests = test_modules(code);
    let all: Vec<(usize, &str)> = words(code).collect();
    let named = all.windows(2).filter(|pair| pair[0].1 == "fn" && code[pair[0].0..].starts_with("fn "));
    named
        .filter_map(|pair| {
            let at = pair[0].0;
            let end = after_braces(code, body(code, at)?);
            let in_test = is_test_file(path) || tests.iter().any(|module| module.contains(&at));
            Some(Function {
                name: pair[1].1.to_owned(),
                line: line_of(code, at),
                lines: line_of(code, end) - line_of(code, at) + 1,
                lines_max: if in_test { TEST_LINES_MAX } else { LINES_MAX },
            })
        })
        .collect()
}

/// The brace that opens the body; none for a declaration in a trait. A `;` inside brackets belongs to an array's type.
fn body(code: &str, from: usize) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            b'{' if depth == 0 => return Some(at),
            b';' if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

fn test_modules(code: &str) -> Vec<std::ops::Range<usize>> {
    let marks = code.match_indices("#[cfg(test)]").map(|(at, _)| at);
    marks.filter_map(|at| Some(at..after_braces(code, body(code, at)?))).collect()
}

fn is_test_file(path: &str) -> bool {
    path.ends_with("tests.rs") || path.split('/').any(|part| part == "tests" || part == "benches")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, lines: usize) -> String {
        format!("fn {name}() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    fn says(files: &[(&str, &str)], list: &str) -> Vec<String> {
        let tree = Tree { long_functions: list.to_owned(), ..Tree::of(files) };
        too_long(&tree).into_iter().map(|finding| finding.says).collect()
    }

    #[test]
    fn a_function_of_seventy_lines_fits_and_one_more_does_not() {
        assert_eq!(says(&[("a.rs", &function("fits", 70))], ""), [""; 0]);
        let expected = ["long has 71 lines; at most 70 fit on a screen"];
        assert_eq!(says(&[("a.rs", &function("long", 71))], ""), expected);
    }

    #[test]
    fn a_test_may_be_twice_as_long_and_no_longer() {
        let module = |lines| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function("story", lines));
        assert_eq!(says(&[("a.rs", &module(140))], ""), [""; 0]);
        assert_eq!(says(&[("a.rs", &module(141))], "").len(), 1);
        assert_eq!(says(&[("crates/x/tests/a.rs", &function("story", 140))], ""), [""; 0]);
    }

    #[test]
    fn braces_in_texts_and_semicolons_in_arrays_do_not_confuse_the_count() {
        let tricky = format!("fn f(x: [u8; 4]) -> char {{\n    g(\"}}\");\n{}    '}}'\n}}\n", "    // }\n".repeat(70));
        assert_eq!(says(&[("a.rs", &tricky)], ""), ["f has 74 lines; at most 70 fit on a screen"]);
    }

    #[test]
    fn a_declaration_without_a_body_and_a_type_of_functions_are_not_counted() {
        assert_eq!(functions("a.rs", "trait T { fn f(&self); }\ntype F = fn (u8);\n").len(), 0);
    }

    #[test]
    fn a_listed_function_is_excused_at_its_length_exactly() {
        let file = [("a.rs", &*function("long", 80))];
        assert_eq!(says(&file, "# why\na.rs long 80\n"), [""; 0]);
        assert_eq!(says(&file, "a.rs long 79\n"), ["long grew from 79 to 80 lines: the list only shrinks"]);
        assert_eq!(says(&file, "a.rs long 90\n"), [format!("long has 80 lines now: write that into {LIST}")]);
    }

    #[test]
    fn a_line_of_the_list_that_is_no_longer_needed_is_struck() {
        let fits = [("a.rs", &*function("long", 20))];
        assert_eq!(says(&fits, "a.rs long 80\n"), [format!("long fits now: strike it from {LIST}")]);
        assert_eq!(says(&[], "a.rs gone 80\n"), ["a.rs has no function gone: strike the line"]);
    }
}
