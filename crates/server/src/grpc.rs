//! The gRPC front door: the same calls and answers as over JSON. A denial is an answer; only a call that could not be
//! put is an error, with the API's code in its message.

pub mod messages;

use std::pin::Pin;

use http::StatusCode;
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};
use wire::v1 as proto;
use wire::v1::check_result::Result as ResultKind;
use wire::v1::rate_limiter_server::RateLimiter;

use crate::access::{Caller, Scope};
use crate::asked::Asked;
use crate::body::Told;
use crate::call::Call;
use crate::code::{Code, Rejection};
use crate::front::{Front, place, put};
use crate::grpc::messages::{Says, decision, refunded, released, renewed, reset, settled};
use crate::json::BATCH_MAX;
use crate::meter::Api;

/// Batches of one stream that are decided at once; more wait in the transport.
pub const STREAM_BATCHES_IN_FLIGHT_MAX: usize = 32;

/// The service.
#[derive(Clone, Debug)]
pub struct Grpc {
    /// What it shares with the other doors.
    pub front: Front,
}

/// One answer, or the error that stands for it.
type Answer<Message> = Result<Response<Message>, Status>;

#[tonic::async_trait]
impl RateLimiter for Grpc {
    async fn check(&self, request: Request<proto::CheckRequest>) -> Answer<proto::Decision> {
        self.answer(Call::Check, request, decision).await
    }

    async fn peek(&self, request: Request<proto::PeekRequest>) -> Answer<proto::Decision> {
        self.answer(Call::Peek, request, decision).await
    }

    async fn reserve(&self, request: Request<proto::ReserveRequest>) -> Answer<proto::Decision> {
        self.answer(Call::Reserve, request, decision).await
    }

    async fn acquire(&self, request: Request<proto::AcquireRequest>) -> Answer<proto::Decision> {
        self.answer(Call::Acquire, request, decision).await
    }

    async fn settle(&self, request: Request<proto::SettleRequest>) -> Answer<proto::SettleResponse> {
        self.answer(Call::Settle, request, settled).await
    }

    async fn renew(&self, request: Request<proto::RenewRequest>) -> Answer<proto::RenewResponse> {
        self.answer(Call::Renew, request, renewed).await
    }

    async fn release(&self, request: Request<proto::ReleaseRequest>) -> Answer<proto::ReleaseResponse> {
        self.answer(Call::Release, request, released).await
    }

    async fn refund(&self, request: Request<proto::RefundRequest>) -> Answer<proto::RefundResponse> {
        self.answer(Call::Refund, request, refunded).await
    }

    async fn reset(&self, request: Request<proto::ResetRequest>) -> Answer<proto::ResetResponse> {
        self.answer(Call::Reset, request, reset).await
    }

    async fn check_batch(&self, request: Request<proto::CheckBatchRequest>) -> Answer<proto::CheckBatchResponse> {
        let timer = self.front.meter.start(Api::GrpcBatch);
        let result = self.answer_batch(request).await;
        timer.stop(result.as_ref().map_or_else(status_of_error, |_| 200));
        result.map(Response::new)
    }

    type CheckStreamStream = Pin<Box<dyn Stream<Item = Result<proto::CheckBatchResponse, Status>> + Send>>;

    async fn check_stream(
        &self,
        request: Request<Streaming<proto::CheckBatchRequest>>,
    ) -> Result<Response<Self::CheckStreamStream>, Status> {
        let admitted = self.admit(&request, Call::Check.scope()).map(Caller::standing);
        let caller = admitted.map_err(|rejection| {
            self.front.meter.start(Api::GrpcStream).stop(rejection.code.status().as_u16());
            status_of(&rejection)
        })?;
        let service = self.clone();
        let answers = request.into_inner().map(move |batch| {
            let service = service.clone();
            async move {
                let timer = service.front.meter.start(Api::GrpcStream);
                let answer = match batch {
                    Ok(batch) => service.decide_batch(batch, service.front.access.caller(caller)).await,
                    Err(status) => Err(status),
                };
                timer.stop(answer.as_ref().map_or_else(status_of_error, |_| 200));
                answer
            }
        });
        // Answers leave as they are ready; each carries its batch's number.
        let answers = futures_util::StreamExt::buffer_unordered(answers, STREAM_BATCHES_IN_FLIGHT_MAX);
        Ok(Response::new(Box::pin(answers)))
    }
}

impl Grpc {
    fn admit<Message>(&self, request: &Request<Message>, scope: Scope) -> Result<Caller<'_>, Rejection> {
        let peer = request.extensions().get().copied();
        self.front.access.at_api(request.metadata().as_ref(), peer, scope)
    }

    /// Answers one call; `tell` makes the message.
    async fn answer<Message: Says, Said>(
        &self,
        call: Call,
        request: Request<Message>,
        tell: fn(&Told<'_>) -> Option<Said>,
    ) -> Answer<Said> {
        let timer = self.front.meter.start(Api::Grpc(call));
        let told = self.put_one(call, request, tell).await;
        timer.stop(told.as_ref().map_or_else(|rejection| rejection.code.status(), |(status, _)| *status).as_u16());
        let (_, said) = told.map_err(|rejection| status_of(&rejection))?;
        said.map(Response::new).ok_or_else(|| Status::internal("the answer of another call"))
    }

    async fn put_one<Message: Says, Said>(
        &self,
        call: Call,
        request: Request<Message>,
        tell: fn(&Told<'_>) -> Option<Said>,
    ) -> Result<(StatusCode, Option<Said>), Rejection> {
        let caller = self.admit(&request, call.scope())?;
        let said = request.into_inner().said("")?;
        let asked = [Ok(Asked::of(call, said, "")?.named(rand::random))];
        let answered = put(&self.front, caller, &asked, false).await;
        let told = answered.told(0)?;
        Ok((told.status(), tell(&told)))
    }

    async fn answer_batch(
        &self,
        request: Request<proto::CheckBatchRequest>,
    ) -> Result<proto::CheckBatchResponse, Status> {
        let caller = self.admit(&request, Call::Check.scope()).map_err(|rejection| status_of(&rejection))?;
        self.decide_batch(request.into_inner(), caller).await
    }

    async fn decide_batch(
        &self,
        batch: proto::CheckBatchRequest,
        caller: Caller<'_>,
    ) -> Result<proto::CheckBatchResponse, Status> {
        let proto::CheckBatchRequest { number, checks } = batch;
        if checks.len() > BATCH_MAX {
            let detail = format!("{} checks; at most {BATCH_MAX} in one batch", checks.len());
            return Err(status_of(&Rejection::new(Code::BatchTooLarge, detail)));
        }
        let asked = checks.into_iter().enumerate().map(|(index, check)| {
            let place = place(index, true);
            Asked::of(Call::Check, check.said(&place)?, &place)
        });
        let asked: Vec<_> = asked.collect();
        let answered = put(&self.front, caller, &asked, true).await;
        let results = answered.all().map(|told| result_of(told.as_ref())).collect();
        Ok(proto::CheckBatchResponse { number, results })
    }
}

fn result_of(told: Result<&Told<'_>, &Rejection>) -> proto::CheckResult {
    let result = match told {
        Ok(told) => decision(told).map(ResultKind::Decision),
        Err(rejection) => Some(ResultKind::Error(proto::CheckError {
            code: rejection.code.as_str().to_owned(),
            field: rejection.field.clone(),
            detail: rejection.detail.clone(),
        })),
    };
    proto::CheckResult { result }
}

/// The status that a refused call has over HTTP, for the counters.
fn status_of_error(status: &Status) -> u16 {
    match status.code() {
        tonic::Code::NotFound => 404,
        tonic::Code::Unauthenticated => 401,
        tonic::Code::PermissionDenied => 403,
        tonic::Code::FailedPrecondition => 409,
        tonic::Code::Unavailable => 503,
        tonic::Code::Ok
        | tonic::Code::Cancelled
        | tonic::Code::Unknown
        | tonic::Code::InvalidArgument
        | tonic::Code::DeadlineExceeded
        | tonic::Code::AlreadyExists
        | tonic::Code::ResourceExhausted
        | tonic::Code::Aborted
        | tonic::Code::OutOfRange
        | tonic::Code::Unimplemented
        | tonic::Code::Internal
        | tonic::Code::DataLoss => 400,
    }
}

fn status_of(rejection: &Rejection) -> Status {
    let Rejection { code, field, detail } = rejection;
    let message = match field.as_str() {
        "" => format!("{}: {detail}", code.as_str()),
        field => format!("{}: {field}: {detail}", code.as_str()),
    };
    match code.status() {
        StatusCode::NOT_FOUND => Status::not_found(message),
        StatusCode::UNAUTHORIZED => Status::unauthenticated(message),
        StatusCode::FORBIDDEN => Status::permission_denied(message),
        StatusCode::CONFLICT => Status::failed_precondition(message),
        StatusCode::SERVICE_UNAVAILABLE => Status::unavailable(message),
        _ => Status::invalid_argument(message),
    }
}
