//! Prepares the standard input of a command completely before the command starts. So no writer has to run alongside it,
//! and a command that never reads its input does no harm.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, ioctl_fionbio, write};

/// The standard input of a command.
#[derive(Clone, Copy, Debug, Default)]
pub enum Input<'a> {
    #[default]
    Nothing,
    /// At most [`MAX_INPUT_BYTES`].
    Bytes(&'a [u8]),
}

impl Input<'_> {
    pub(super) fn size(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

pub const LARGEST: usize = 16 * 1024 * 1024;

pub(super) fn prepare(input: Input<'_>) -> io::Result<OwnedFd> {
    match input {
        Input::Nothing => Ok(open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?),
        Input::Bytes(bytes) if bytes.len() > LARGEST => Err(io::ErrorKind::FileTooLarge.into()),
        Input::Bytes(bytes) => match in_pipe(bytes)? {
            Some(pipe) => Ok(pipe),
            None => in_file(bytes),
        },
    }
}

/// Writes the bytes into a pipe. Hosts use pipes for hook input, so a command that reads its input twice must find
/// nothing the second time. `None` if the bytes do not fit.
fn in_pipe(bytes: &[u8]) -> io::Result<Option<OwnedFd>> {
    let (reader, writer) = io::pipe()?;
    ioctl_fionbio(&writer, true)?;
    widen(&writer, bytes.len());
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

#[cfg(target_os = "linux")]
fn widen(pipe: impl AsFd, size: usize) {
    use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};
    if fcntl_getpipe_size(&pipe).is_ok_and(|now| now < size) {
        // The kernel refuses large pipes or too many of them. Then a file is used instead.
        fcntl_setpipe_size(&pipe, size).ok();
    }
}

#[cfg(not(target_os = "linux"))]
fn widen(_: impl AsFd, _: usize) {}

/// Writes the bytes to an unnamed file, on Linux in memory.
#[cfg(target_os = "linux")]
fn in_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use std::io::{Seek, Write};
    let mut file = std::fs::File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(not(target_os = "linux"))]
fn in_file(bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = crate::fs::scratch(std::path::Path::new("/tmp"), bytes);
    Ok(file.map_err(io::Error::other)?.into())
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
        for length in [0, 1, 4096, 65_536, 65_537, 1024 * 1024, 1024 * 1024 + 1, LARGEST] {
            let bytes: Vec<u8> = (0..=250).cycle().take(length).collect();
            assert!(read_all(prepare(Input::Bytes(&bytes)).unwrap()) == bytes, "{length}");
            assert!(read_all(in_file(&bytes).unwrap()) == bytes, "{length}");
        }
        assert_eq!(read_all(prepare(Input::Nothing).unwrap()), b"");
    }

    #[test]
    fn oversized_input_is_rejected() {
        let error = prepare(Input::Bytes(&vec![0; LARGEST + 1])).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
