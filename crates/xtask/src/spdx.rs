//! SPDX licence expressions, as `Cargo.toml` holds them: `MIT OR Apache-2.0`, `(A OR B) AND C`, `A WITH exception`, and
//! the old spelling of OR as a slash. Small enough to read, and all that the registry uses.

/// A licence expression as a tree.
#[derive(Debug, PartialEq, Eq)]
pub enum Expression {
    /// One licence by its identifier, `WITH` its exception where it has one.
    Licence(String),
    /// Whoever uses the package must keep both.
    Both(Box<Expression>, Box<Expression>),
    /// Whoever uses the package picks one.
    Either(Box<Expression>, Box<Expression>),
}

/// The text is not an expression. The package's author wrote it; nothing is known about its licence.
#[derive(Debug, PartialEq, Eq)]
pub struct NotAnExpression {
    /// What stood where something else was due; empty at the end of the text.
    pub found: String,
    pub expected: &'static str,
}

impl Expression {
    /// Reads an expression; AND binds tighter than OR, as SPDX says (annex D of its specification, version 2.3).
    ///
    /// # Errors
    /// When the text has another shape.
    pub fn parse(text: &str) -> Result<Expression, NotAnExpression> {
        let mut words = Words { left: words_of(text) };
        let expression = words.either()?;
        match words.left.first() {
            None => Ok(expression),
            Some(word) => Err(NotAnExpression { found: word.clone(), expected: "AND, OR or the end" }),
        }
    }

    /// Whether the expression can be kept by someone who may use exactly the licences for which `allowed` says so.
    pub fn is_satisfied(&self, allowed: &impl Fn(&str) -> bool) -> bool {
        match self {
            Expression::Licence(name) => allowed(name),
            Expression::Both(a, b) => a.is_satisfied(allowed) && b.is_satisfied(allowed),
            Expression::Either(a, b) => a.is_satisfied(allowed) || b.is_satisfied(allowed),
        }
    }
}

struct Words {
    left: Vec<String>,
}

impl Words {
    fn either(&mut self) -> Result<Expression, NotAnExpression> {
        let mut expression = self.both()?;
        while self.takes("OR") || self.takes("/") {
            expression = Expression::Either(Box::new(expression), Box::new(self.both()?));
        }
        Ok(expression)
    }

    fn both(&mut self) -> Result<Expression, NotAnExpression> {
        let mut expression = self.one()?;
        while self.takes("AND") {
            expression = Expression::Both(Box::new(expression), Box::new(self.one()?));
        }
        Ok(expression)
    }

    fn one(&mut self) -> Result<Expression, NotAnExpression> {
        if !self.takes("(") {
            return self.licence();
        }
        let inner = self.either()?;
        if self.takes(")") { Ok(inner) } else { Err(self.unexpected("a closing parenthesis")) }
    }

    fn licence(&mut self) -> Result<Expression, NotAnExpression> {
        let name = self.name()?;
        if !self.takes("WITH") {
            return Ok(Expression::Licence(name));
        }
        Ok(Expression::Licence(format!("{name} WITH {}", self.name()?)))
    }

    fn name(&mut self) -> Result<String, NotAnExpression> {
        match self.left.first() {
            Some(word) if !["AND", "OR", "WITH", "(", ")", "/"].contains(&word.as_str()) => Ok(self.left.remove(0)),
            _ => Err(self.unexpected("the name of a licence")),
        }
    }

    fn takes(&mut self, word: &str) -> bool {
        let there = self.left.first().is_some_and(|next| next == word);
        if there {
            self.left.remove(0);
        }
        there
    }

    fn unexpected(&self, expected: &'static str) -> NotAnExpression {
        NotAnExpression { found: self.left.first().cloned().unwrap_or_default(), expected }
    }
}

fn words_of(text: &str) -> Vec<String> {
    let mut spaced = text.to_owned();
    for mark in ["(", ")", "/"] {
        spaced = spaced.replace(mark, &format!(" {mark} "));
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, allowed: &[&str]) -> bool {
        Expression::parse(text).unwrap().is_satisfied(&|name| allowed.contains(&name))
    }

    #[test]
    fn a_choice_needs_one_side_and_a_conjunction_both() {
        assert!(holds("MIT OR GPL-3.0-only", &["MIT"]));
        assert!(!holds("MIT AND GPL-3.0-only", &["MIT"]));
        assert!(holds("MIT AND BSD-3-Clause", &["MIT", "BSD-3-Clause"]));
        assert!(!holds("GPL-3.0-only OR AGPL-3.0-only", &["MIT"]));
    }

    #[test]
    fn and_binds_tighter_than_or_and_parentheses_bind_tightest() {
        assert!(holds("MIT OR ISC AND GPL-3.0-only", &["MIT"]));
        assert!(!holds("(MIT OR ISC) AND GPL-3.0-only", &["MIT"]));
        assert!(holds("(MIT OR Apache-2.0) AND Unicode-3.0", &["Apache-2.0", "Unicode-3.0"]));
        assert!(!holds("(MIT OR Apache-2.0) AND Unicode-3.0", &["Apache-2.0"]));
    }

    #[test]
    fn a_slash_is_an_old_or_with_and_without_spaces() {
        assert!(holds("MIT/Apache-2.0", &["Apache-2.0"]));
        assert!(holds("Apache-2.0 / MIT", &["MIT"]));
    }

    #[test]
    fn an_exception_is_part_of_the_name_and_not_waived() {
        let text = "Apache-2.0 WITH LLVM-exception";
        assert!(!holds(text, &["Apache-2.0"]));
        assert!(holds(text, &[text]));
        assert!(holds("Apache-2.0 WITH LLVM-exception OR MIT", &["MIT"]));
    }

    #[test]
    fn what_is_not_an_expression_is_refused_with_what_was_due() {
        let refused = |text: &str| {
            let error = Expression::parse(text).unwrap_err();
            (error.found, error.expected)
        };
        assert_eq!(refused(""), (String::new(), "the name of a licence"));
        assert_eq!(refused("MIT OR"), (String::new(), "the name of a licence"));
        assert_eq!(refused("MIT Apache-2.0"), ("Apache-2.0".into(), "AND, OR or the end"));
        assert_eq!(refused("(MIT"), (String::new(), "a closing parenthesis"));
        assert_eq!(refused("MIT WITH AND"), ("AND".into(), "the name of a licence"));
    }
}
