//! Patterns with `*` and `?`, for names of agents, models and checks.

/// `*` matches any characters and `?` exactly one. Backtracks to the last `*` only, so the time is bounded by the
/// product of both lengths.
pub fn matches_wildcard(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while let Some(byte) = name.get(from) {
        match pattern.get(at) {
            Some(b'*') => {
                back = Some((at, from));
                at += 1;
            }
            Some(b'?') => {
                at += 1;
                from += 1;
                // A character may be more than one byte.
                while name.get(from).is_some_and(|next| next & 0xc0 == 0x80) {
                    from += 1;
                }
            }
            Some(same) if same == byte => {
                at += 1;
                from += 1;
            }
            Some(_) | None => match &mut back {
                Some((star, start)) => {
                    *start += 1;
                    (at, from) = (*star + 1, *start);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|byte| *byte == b'*'))
}
