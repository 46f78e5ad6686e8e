//! Loads pages in a thread of its own, so that keys are read while thousands of journals are.

use crate::watch_effect::{LoadRequest, LoadedPage};
use crate::watch_loop::LoopEvent;
use ralph_sys::clock::Stopwatch;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

/// A page that was asked for.
#[derive(Debug)]
pub(crate) struct PageAnswer {
    pub(crate) request: LoadRequest,
    pub(crate) page: LoadedPage,
    pub(crate) took: Duration,
}

/// Requests in their order, each at most once at a time.
#[derive(Debug)]
pub(crate) struct PageLoader {
    requests: Sender<LoadRequest>,
    pending: Vec<LoadRequest>,
}

impl PageLoader {
    /// The thread is not waited for: it ends with its last request, or with the process. What it writes is a cache.
    pub(crate) fn start(
        mut load: impl FnMut(&LoadRequest) -> LoadedPage + Send + 'static,
        answers: Sender<LoopEvent>,
    ) -> io::Result<Self> {
        let (requests, received) = channel::<LoadRequest>();
        std::thread::Builder::new().name("pages".to_string()).spawn(move || {
            for request in received {
                let watch = Stopwatch::start();
                let page = load(&request);
                let answer = PageAnswer { request, page, took: watch.elapsed() };
                if answers.send(LoopEvent::Loaded(Box::new(answer))).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, pending: Vec::new() })
    }

    /// Returns whether the page is loaded from now on. It is not if it is being loaded already.
    pub(crate) fn request(&mut self, request: &LoadRequest) -> bool {
        let is_new = !self.is_pending(request);
        if is_new && self.requests.send(request.clone()).is_ok() {
            self.pending.push(request.clone());
        }
        is_new
    }

    pub(crate) fn is_pending(&self, request: &LoadRequest) -> bool {
        self.pending.contains(request)
    }

    pub(crate) fn take_answer(&mut self, answer: &PageAnswer) {
        self.pending.retain(|pending| *pending != answer.request);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests return at once, however long a page takes, and one that is under way is not repeated.
    #[test]
    fn pages_are_loaded_elsewhere_and_once_at_a_time() {
        let (sender, answers) = channel();
        let (release, blocked) = channel::<()>();
        let load = move |request: &LoadRequest| {
            blocked.recv().ok();
            LoadedPage::Failed(format!("{request:?}"))
        };
        let mut loader = PageLoader::start(load, sender).unwrap();
        let earlier = LoadRequest::Earlier { filter: String::new(), before: None };
        assert!(loader.request(&LoadRequest::Board));
        assert!(!loader.request(&LoadRequest::Board));
        assert!(loader.request(&earlier));
        for expected in [LoadRequest::Board, earlier] {
            assert!(loader.is_pending(&expected));
            release.send(()).unwrap();
            let Ok(LoopEvent::Loaded(answer)) = answers.recv() else { panic!("no page") };
            loader.take_answer(&answer);
            assert_eq!(answer.request, expected);
            assert!(!loader.is_pending(&expected));
        }
        assert!(loader.request(&LoadRequest::Board));
    }
}
