//! Git's path patterns, `*`, `?`, `[…]` and `**`, over bytes. No pattern takes exponential time, because the
//! matcher keeps only one backtracking position for `*` and one for `**`.

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct GitGlob(Vec<GlobToken>);

#[derive(Debug)]
enum GlobToken {
    Byte(u8),
    /// `?`
    Any,
    Set(Box<ByteSet>),
    /// `*`: any bytes without a slash.
    Star,
    /// `**`: any bytes.
    DoubleStar,
    /// `**/`: nothing, or any bytes that end in a slash.
    Directories,
    /// An invalid pattern, which matches nothing.
    Never,
}

#[derive(Debug, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    fn add(&mut self, from: u8, to: u8) {
        for byte in from..=to {
            self.0[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0
    }
}

impl GlobToken {
    fn accepts(&self, byte: u8) -> bool {
        match self {
            Self::Byte(expected) => *expected == byte,
            Self::Any => byte != b'/',
            Self::Set(set) => byte != b'/' && set.has(byte),
            Self::Star | Self::DoubleStar | Self::Directories | Self::Never => false,
        }
    }
}

impl GitGlob {
    pub(super) fn new(pattern: &[u8]) -> Self {
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&byte) = pattern.get(at) {
            let token = match byte {
                b'?' => GlobToken::Any,
                b'*' => {
                    let (token, next) = parse_stars(pattern, at);
                    tokens.push(token);
                    at = next;
                    continue;
                }
                b'[' => match parse_set(pattern, at + 1) {
                    Some((set, last)) => {
                        at = last;
                        GlobToken::Set(Box::new(set))
                    }
                    None => return Self(vec![GlobToken::Never]),
                },
                b'\\' => {
                    at += 1;
                    pattern.get(at).map_or(GlobToken::Never, |byte| GlobToken::Byte(*byte))
                }
                byte => GlobToken::Byte(byte),
            };
            tokens.push(token);
            at += 1;
        }
        Self(tokens)
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        let (mut token, mut at) = (0, 0);
        let mut star: Option<GlobBacktrack> = None;
        let mut wide: Option<GlobBacktrack> = None;
        loop {
            match self.0.get(token) {
                None if at == text.len() => return true,
                Some(GlobToken::Star) => {
                    token += 1;
                    star = Some(GlobBacktrack { token, at, only_after_slash: false });
                    continue;
                }
                Some(wider @ (GlobToken::DoubleStar | GlobToken::Directories)) => {
                    let only_after_slash = matches!(wider, GlobToken::Directories);
                    token += 1;
                    wide = Some(GlobBacktrack { token, at, only_after_slash });
                    star = None;
                    continue;
                }
                Some(other) if text.get(at).is_some_and(|byte| other.accepts(*byte)) => {
                    token += 1;
                    at += 1;
                    continue;
                }
                Some(_) | None => {}
            }
            if let Some(resume) = &mut star
                && text.get(resume.at).is_some_and(|byte| *byte != b'/')
            {
                resume.at += 1;
                (token, at) = (resume.token, resume.at);
                continue;
            }
            star = None;
            let Some(resume) = &mut wide else { return false };
            if !resume.advance(text) {
                return false;
            }
            (token, at) = (resume.token, resume.at);
        }
    }
}

/// Where to resume after a mismatch: the wildcard before `token` takes more of the text.
struct GlobBacktrack {
    token: usize,
    at: usize,
    only_after_slash: bool,
}

impl GlobBacktrack {
    fn advance(&mut self, text: &[u8]) -> bool {
        let Some(rest) = text.get(self.at..) else { return false };
        let taken = if self.only_after_slash {
            memchr::memchr(b'/', rest).map(|slash| slash + 1)
        } else {
            (!rest.is_empty()).then_some(1)
        };
        self.at += taken.unwrap_or(0);
        taken.is_some()
    }
}

/// Parses the stars at `first`. Returns their token and where the pattern continues.
fn parse_stars(pattern: &[u8], first: usize) -> (GlobToken, usize) {
    let rest = pattern.get(first..).unwrap_or_default();
    let count = rest.iter().take_while(|byte| **byte == b'*').count();
    let next = first + count;
    let follows = pattern.get(next..).unwrap_or_default();
    let begins_a_part = first == 0 || pattern.get(first - 1) == Some(&b'/');
    let token = match follows {
        _ if count < 2 || !begins_a_part => GlobToken::Star,
        [] | [b'\\', b'/', ..] => GlobToken::DoubleStar,
        [b'/', ..] => return (GlobToken::Directories, next + 1),
        _ => GlobToken::Star,
    };
    (token, next)
}

/// Parses the set that starts after a bracket. Returns it and the position of its closing bracket, or `None` if there
/// is none.
fn parse_set(pattern: &[u8], start: usize) -> Option<(ByteSet, usize)> {
    let mut set = ByteSet::default();
    let mut at = start;
    let is_negated = matches!(pattern.get(at)?, b'!' | b'^');
    at += usize::from(is_negated);
    let mut previous = None;
    // A closing bracket in first position is a member.
    loop {
        let byte = *pattern.get(at)?;
        previous = match byte {
            b'\\' => {
                at += 1;
                let escaped = *pattern.get(at)?;
                set.add(escaped, escaped);
                Some(escaped)
            }
            b'-' if let Some(from) = previous
                && pattern.get(at + 1).is_some_and(|next| *next != b']') =>
            {
                at += 1;
                if pattern.get(at) == Some(&b'\\') {
                    at += 1;
                }
                set.add(from, *pattern.get(at)?);
                None
            }
            b'[' if pattern.get(at + 1) == Some(&b':') => {
                let name = at + 2;
                let close = name + memchr::memchr(b']', pattern.get(name..)?)?;
                if let Some(class) = pattern.get(name..close)?.strip_suffix(b":") {
                    add_character_class(&mut set, class)?;
                    at = close;
                    None
                } else {
                    set.add(b'[', b'[');
                    Some(b'[')
                }
            }
            member => {
                set.add(member, member);
                Some(member)
            }
        };
        at += 1;
        if *pattern.get(at)? == b']' {
            break;
        }
    }
    if is_negated {
        set.0 = set.0.map(|word| !word);
    }
    Some((set, at))
}

fn add_character_class(set: &mut ByteSet, name: &[u8]) -> Option<()> {
    let is_member: fn(&u8) -> bool = match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    };
    for byte in (0..=u8::MAX).filter(is_member) {
        set.add(byte, byte);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_git() {
        for (pattern, fits, does_not) in [
            ("a", &["a"][..], &["b", "aa", ""][..]),
            ("*.rs", &[".rs", "a.rs"], &["a.rsx", "d/a.rs"]),
            ("a?c", &["abc"], &["a/c", "ac"]),
            ("**/a", &["a", "d/a", "d/e/a"], &["ba", "d/ba"]),
            ("a/**", &["a/b", "a/b/c"], &["a", "b/a"]),
            ("a/**/b", &["a/b", "a/x/b", "a/x/y/b"], &["a/xb", "ab"]),
            ("a**b", &["ab", "axb"], &["a/b"]),
            ("[a-c]", &["a", "b", "c"], &["d", "-"]),
            ("[!a]", &["b"], &["a", "/"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]x]", &["3", "x"], &["a"]),
            ("[[:bogus:]]", &[], &["b"]),
            ("[a", &[], &["a", "[a"]),
            ("\\*", &["*"], &["a"]),
            ("a\\", &[], &["a", "a\\"]),
            ("*a*b*c", &["abc", "xaxbxc"], &["acb", "ab/c"]),
            ("**/x*y/**/z", &["xy/z", "a/xby/c/d/z"], &["xy/az", "x/y/z"]),
        ] {
            let glob = GitGlob::new(pattern.as_bytes());
            for text in fits {
                assert!(glob.matches(text.as_bytes()), "{pattern} {text}");
            }
            for text in does_not {
                assert!(!glob.matches(text.as_bytes()), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn hostile_patterns_do_not_take_exponential_time() {
        let glob = GitGlob::new(&b"*a".repeat(2000));
        assert!(!glob.matches(&[b'a'; 1999]));
        let glob = GitGlob::new(&[b"**/a*".repeat(500), b"z".to_vec()].concat());
        assert!(!glob.matches(&b"aaaa/".repeat(500)));
    }
}
