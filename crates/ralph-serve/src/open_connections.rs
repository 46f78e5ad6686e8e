//! The open connections, and which of them have no request.
//!
//! A connection without a request costs its client nothing, so such connections must not keep others out: when all
//! places are taken, the one that has been without a request for longest is closed.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use hyper::body::{Body as HttpBody, Bytes, Frame, SizeHint};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct OpenConnections(Arc<Mutex<ConnectionTable>>);

#[derive(Debug, Default)]
struct ConnectionTable {
    /// Grows with every change, so that it orders the connections.
    last: u64,
    by_id: BTreeMap<u64, ConnectionEntry>,
}

#[derive(Debug)]
struct ConnectionEntry {
    requests: usize,
    idle_since: u64,
    close: Arc<Notify>,
}

impl ConnectionTable {
    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

fn lock(table: &Mutex<ConnectionTable>) -> MutexGuard<'_, ConnectionTable> {
    // No update under this lock can be left half done by a panic.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OpenConnections {
    pub(crate) fn open(&self) -> OpenConnection {
        let close = Arc::new(Notify::new());
        let mut table = lock(&self.0);
        let id = table.next();
        let entry = ConnectionEntry { requests: 0, idle_since: id, close: Arc::clone(&close) };
        table.by_id.insert(id, entry);
        let activity = ConnectionActivity { id, table: Arc::clone(&self.0) };
        OpenConnection { activity, close }
    }

    /// Closes the connection that has been without a request for longest, if there is one.
    pub(crate) fn close_idle(&self) {
        let mut table = lock(&self.0);
        let idle = table.by_id.iter().filter(|(_, entry)| entry.requests == 0);
        let oldest = idle.min_by_key(|(_, entry)| entry.idle_since).map(|(id, _)| *id);
        if let Some(entry) = oldest.and_then(|id| table.by_id.remove(&id)) {
            entry.close.notify_one();
        }
    }
}

/// One connection, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    activity: ConnectionActivity,
    close: Arc<Notify>,
}

impl OpenConnection {
    pub(crate) fn activity(&self) -> ConnectionActivity {
        self.activity.clone()
    }

    /// Ends when the connection has to make room.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        lock(&self.activity.table).by_id.remove(&self.activity.id);
    }
}

/// Counts the requests of a connection.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionActivity {
    id: u64,
    table: Arc<Mutex<ConnectionTable>>,
}

impl ConnectionActivity {
    fn begin_request(&self) -> RequestGuard {
        if let Some(entry) = lock(&self.table).by_id.get_mut(&self.id) {
            entry.requests += 1;
        }
        RequestGuard(self.clone())
    }
}

/// A request that is being answered.
#[derive(Debug)]
struct RequestGuard(ConnectionActivity);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let mut table = lock(&self.0.table);
        let now = table.next();
        if let Some(entry) = table.by_id.get_mut(&self.0.id) {
            entry.requests = entry.requests.saturating_sub(1);
            entry.idle_since = now;
        }
    }
}

/// A connection is busy from the head of a request to the end of the response, which can be a stream of updates.
pub(crate) async fn mark_busy(
    State(activity): State<ConnectionActivity>,
    request: Request,
    next: Next,
) -> Response {
    let guard = activity.begin_request();
    let response = next.run(request).await;
    response.map(|body| Body::new(GuardedBody { body, _guard: guard }))
}

struct GuardedBody {
    body: Body,
    _guard: RequestGuard,
}

impl HttpBody for GuardedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
