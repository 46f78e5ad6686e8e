//! Updates of open pages: whole regions, rendered by the templates of the page and sent as server-sent events.
//!
//! A change makes every open page load again, at most four times a second, and the regions that differ are sent. A new connection first
//! gets every region, because its page may have been made before a change; the script skips those that are equal.

use crate::access::SessionMark;
use crate::error_page;
use crate::live_hub::StreamInterest;
use crate::live_page::LivePage;
use crate::page_region::{LiveView, RegionMemory};
use crate::query::query_field;
use crate::refusal::RefusedRequest;
use crate::server_state::{ServerState, run_blocking};
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use ralph_sys::clock::Stopwatch;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// At most four updates a second and page.
const MIN_UPDATE_INTERVAL: Duration = Duration::from_millis(250);
/// Times such as "in 19 min" are made anew this often while a page is open.
const REFRESH_INTERVAL: Duration = Duration::from_secs(30);
/// How often a page is made for one update, while the directories that it depends on change.
const MAX_LOADS: usize = 3;

/// `GET /events?page=/run/ID`.
pub(crate) async fn events(
    State(state): State<Arc<ServerState>>,
    Extension(session): Extension<SessionMark>,
    uri: Uri,
) -> Response {
    let path = query_field(&uri, "page").unwrap_or_default();
    let seen_ms = query_field(&uri, "seen").and_then(|seen| seen.parse().ok()).unwrap_or(0);
    let Some(page) = LivePage::at_path(&path, seen_ms) else {
        return error_page::refusal(RefusedRequest::NotFound);
    };
    let Some(interest) = state.live.open_stream() else {
        return error_page::refusal(RefusedRequest::Busy);
    };
    let (sender, mut messages) = mpsc::channel(1);
    let stream = UpdateStream { state, page, session, interest };
    tokio::spawn(async move { stream.send_updates(&sender).await });
    // A page calls itself live from the response on, so what happens later must be news to it.
    let first = messages.recv().await;
    let kind = HeaderValue::from_static("text/event-stream");
    ([(header::CONTENT_TYPE, kind)], Body::new(EventBody { first, messages })).into_response()
}

/// The updates of one open page.
struct UpdateStream {
    state: Arc<ServerState>,
    page: LivePage,
    session: SessionMark,
    interest: StreamInterest,
}

impl UpdateStream {
    async fn send_updates(&self, sender: &mpsc::Sender<Bytes>) {
        let mut changes = self.state.live.changes();
        let mut is_over = self.state.live.end();
        let mut memory = RegionMemory::default();
        loop {
            let number = *changes.borrow_and_update();
            let loading = Stopwatch::start();
            let Some(view) = self.load_watched().await else { return };
            if !self.state.access.is_open(self.session) {
                return;
            }
            if let Some(message) = memory.update_message(&view, number)
                && sender.send(Bytes::from(message)).await.is_err()
            {
                return;
            }
            // A page that takes long is made less often.
            tokio::time::sleep(MIN_UPDATE_INTERVAL.max(loading.elapsed() * 3)).await;
            tokio::select! {
                news = changes.changed() => if news.is_err() { return },
                () = tokio::time::sleep(REFRESH_INTERVAL) => {}
                () = sender.closed() => return,
                _over = is_over.wait_for(|is_over| *is_over) => return,
            }
        }
    }

    /// The page as it is now. Its directories are watched before it is loaded, so that no change is missed.
    async fn load_watched(&self) -> Option<LiveView> {
        for _ in 1..MAX_LOADS {
            let view = self.load().await?;
            if !self.interest.set_directories(view.directories.clone()) {
                return Some(view);
            }
        }
        // Runs begin faster than a page is made. The directory of all runs is watched, so the next change makes the page again.
        self.load().await
    }

    async fn load(&self) -> Option<LiveView> {
        let (page, session) = (self.page.clone(), self.session);
        run_blocking(&self.state, move |state| page.load(state, session)).await.ok()?
    }
}

/// The events as the body of a response.
struct EventBody {
    first: Option<Bytes>,
    messages: mpsc::Receiver<Bytes>,
}

impl HttpBody for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = |bytes: Bytes| Ok(Frame::data(bytes));
        match self.first.take() {
            Some(first) => Poll::Ready(Some(frame(first))),
            None => self.messages.poll_recv(context).map(|bytes| bytes.map(frame)),
        }
    }
}
