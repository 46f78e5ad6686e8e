//! Prepares the standard input of a command completely before the command starts. So no writer has to run alongside it,
//! and a command that never reads its input does no harm.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, ioctl_fionbio, write};

use crate::os;

/// The standard input of a command.
#[derive(Clone, Copy, Debug, Default)]
pub enum CommandInput<'a> {
    #[default]
    Nothing,
    /// At most [`MAX_INPUT_BYTES`].
    Bytes(&'a [u8]),
}

impl CommandInput<'_> {
    pub(super) fn size(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

pub const MAX_INPUT_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn prepare_input(input: CommandInput<'_>) -> io::Result<OwnedFd> {
    match input {
        CommandInput::Nothing => {
            Ok(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
        }
        CommandInput::Bytes(bytes) if bytes.len() > MAX_INPUT_BYTES => {
            Err(io::ErrorKind::FileTooLarge.into())
        }
        CommandInput::Bytes(bytes) => match write_to_pipe(bytes)? {
            Some(pipe) => Ok(pipe),
            None => os::write_to_unnamed_file(bytes),
        },
    }
}

/// Writes the bytes into a pipe. Hosts use pipes for hook input, so a command that reads its input twice must find
/// nothing the second time. `None` if the bytes do not fit.
fn write_to_pipe(bytes: &[u8]) -> io::Result<Option<OwnedFd>> {
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&writer, true)?;
    os::enlarge_pipe(&writer, bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        match write(&writer, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(reader.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;

    fn read_all(from: OwnedFd) -> Vec<u8> {
        let mut bytes = Vec::new();
        File::from(from).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn input_of_any_size_can_be_read_completely() {
        for length in [0, 1, 4096, 65_536, 65_537, 1024 * 1024, 1024 * 1024 + 1, MAX_INPUT_BYTES] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            assert!(
                read_all(prepare_input(CommandInput::Bytes(&bytes)).unwrap()) == bytes,
                "{length}"
            );
            assert!(read_all(os::write_to_unnamed_file(&bytes).unwrap()) == bytes, "{length}");
        }
        assert_eq!(read_all(prepare_input(CommandInput::Nothing).unwrap()), b"");
    }

    #[test]
    fn oversized_input_is_rejected() {
        let error = prepare_input(CommandInput::Bytes(&vec![0; MAX_INPUT_BYTES + 1])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
