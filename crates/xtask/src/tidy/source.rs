//! Rust text with everything that is not code taken out, so that a rule may look for a brace or a word without finding
//! it in a comment or a string. A small lexer, not a parser: it knows comments, texts and characters, and no more.

/// The same text with comments, strings and character literals turned into spaces. Line ends stay where they are, so
/// line numbers hold.
pub fn code_of(source: &str) -> String {
    let mut code = String::with_capacity(source.len());
    let mut rest = source;
    while !rest.is_empty() {
        let (length, is_code) = next_token(rest);
        let (token, after) = rest.split_at(length);
        if is_code {
            code.push_str(token);
        } else {
            code.extend(token.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        }
        rest = after;
    }
    code
}

/// The number of the line, from 1, on which the byte at `at` stands.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// The byte after the brace that closes the one at `open`. Takes code, as [`code_of`] leaves it.
pub fn after_braces(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return at + 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    code.len()
}

/// Where the words of the code begin, each with the word: identifiers, keywords, numbers.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += code[at..].find(is_word)?;
        let length = word_length(&code[at..]);
        let word = (at, &code[at..at + length]);
        at += length;
        Some(word)
    })
}

/// How long the token at the head of the text is, in bytes, and whether it is code.
fn next_token(text: &str) -> (usize, bool) {
    let not_code = [comment_length, raw_text_length, text_length, character_length];
    if let Some(length) = not_code.iter().find_map(|length| length(text)) {
        return (length, false);
    }
    match word_length(text) {
        0 => (text.chars().next().map_or(0, char::len_utf8), true),
        length => (length, true),
    }
}

fn comment_length(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        depth = match rest {
            [b'/', b'*', ..] => depth + 1,
            [b'*', b'/', ..] if depth == 1 => return Some(at + 2),
            [b'*', b'/', ..] => depth - 1,
            _ => depth,
        };
        at += if rest.starts_with(b"/*") || rest.starts_with(b"*/") { 2 } else { 1 };
    }
    Some(text.len())
}

fn raw_text_length(text: &str) -> Option<usize> {
    let inside = ["r", "br", "cr"].iter().find_map(|head| text.strip_prefix(head))?;
    let hashes = inside.len() - inside.trim_start_matches('#').len();
    let body = inside[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let closed = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + closed)
}

fn text_length(text: &str) -> Option<usize> {
    let head = ["\"", "b\"", "c\""].iter().find(|head| text.starts_with(**head))?;
    Some(head.len() + closing_quote(&text[head.len()..], '"'))
}

/// `'a'` is a character and `'a` a lifetime; only the closing quote tells them apart.
fn character_length(text: &str) -> Option<usize> {
    let body = text.strip_prefix("b'").or_else(|| text.strip_prefix('\''))?;
    let mut characters = body.chars();
    let is_character = characters.next() == Some('\\') || characters.next() == Some('\'');
    is_character.then(|| text.len() - body.len() + closing_quote(body, '\''))
}

/// The length of what stands before and with the quote that is not escaped.
fn closing_quote(body: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, character) in body.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == quote => return at + quote.len_utf8(),
            _ => {}
        }
    }
    body.len()
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !is_word(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_taken_out_and_lines_stay() {
        assert_eq!(code_of("a // b {\nc"), "a       \nc");
        assert_eq!(code_of("a /* { /* } */ { */ b"), format!("a{}b", " ".repeat(19)));
        assert_eq!(code_of("/* one\ntwo */x"), "      \n      x");
    }

    #[test]
    fn texts_of_every_kind_are_taken_out() {
        for text in [r#""{""#, r#""\"{""#, r##"r#""{"#"##, r#"b"{""#, r#"r"{\""#, "'{'", r"'\''", "b'{'"] {
            assert_eq!(code_of(text), " ".repeat(text.len()), "{text}");
        }
    }

    #[test]
    fn lifetimes_raw_names_and_names_that_end_like_a_prefix_are_code() {
        for code in ["fn f<'a>(x: &'a str) {}", "r#type", "for", "number", "'outer: loop {}"] {
            assert_eq!(code_of(code), code);
        }
    }

    #[test]
    fn braces_are_matched_across_each_other() {
        let code = "f { a { } b } c";
        assert_eq!(&code[after_braces(code, 2)..], " c");
    }

    #[test]
    fn words_come_with_their_places() {
        assert_eq!(words("pub fn go_1()").collect::<Vec<_>>(), [(0, "pub"), (4, "fn"), (7, "go_1")]);
    }

    #[test]
    fn lines_are_counted_from_one() {
        assert_eq!((line_of("a\nb\nc", 0), line_of("a\nb\nc", 4)), (1, 3));
    }
}
