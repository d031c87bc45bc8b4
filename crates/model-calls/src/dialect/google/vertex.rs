//! Vertex AI:
//! `/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:{method}`.
//! Keys of express mode use paths without project and location.

use crate::dialect::{
    google::gemini::{LIST_OF_CACHES, STREAM},
    method::{
        Access::{ByName, Open, Socket},
        Api, MethodSpec,
        Operation::{BatchEmbed, CountTokens, CreateCache, Embed, Generate, Other, UseCache},
        method_table,
    },
};

method_table! { Vertex:
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:generateContent" "publishers.models.generateContent" Generate, Open;
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:streamGenerateContent" "publishers.models.streamGenerateContent" STREAM, Open;
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:countTokens" "publishers.models.countTokens" CountTokens, Open;
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:embedContent" "publishers.models.embedContent" Embed, Open;
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:batchEmbedContents" "publishers.models.batchEmbedContents" BatchEmbed, Open;
    POST "/{version}/publishers/google/models/{model}:generateContent" "publishers.models.generateContent" Generate, Open;
    POST "/{version}/publishers/google/models/{model}:streamGenerateContent" "publishers.models.streamGenerateContent" STREAM, Open;
    POST "/{version}/publishers/google/models/{model}:countTokens" "publishers.models.countTokens" CountTokens, Open;
    POST "/{version}/publishers/google/models/{model}:embedContent" "publishers.models.embedContent" Embed, Open;
    POST "/{version}/publishers/google/models/{model}:batchEmbedContents" "publishers.models.batchEmbedContents" BatchEmbed, Open;
    GET "/{version}/publishers/google/models" "publishers.models.list" Other, Open;
    GET "/{version}/publishers/google/models/{model}" "publishers.models.get" Other, Open;
    GET "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}" "publishers.models.get" Other, Open;
    POST "/{version}/projects/{project}/locations/{location}/cachedContents" "cachedContents.create" CreateCache, ByName;
    GET "/{version}/projects/{project}/locations/{location}/cachedContents" "cachedContents.list" Other, LIST_OF_CACHES;
    GET "/{version}/projects/{project}/locations/{location}/cachedContents/{cache}" "cachedContents.get" UseCache, ByName;
    PATCH "/{version}/projects/{project}/locations/{location}/cachedContents/{cache}" "cachedContents.patch" UseCache, ByName;
    DELETE "/{version}/projects/{project}/locations/{location}/cachedContents/{cache}" "cachedContents.delete" UseCache, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}:computeTokens" "publishers.models.computeTokens" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:predict" "publishers.models.predict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:predictLongRunning" "publishers.models.predictLongRunning" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:fetchPredictOperation" "publishers.models.fetchPredictOperation" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:rawPredict" "publishers.models.rawPredict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:streamRawPredict" "publishers.models.streamRawPredict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/publishers/{publisher}/models/{model}:serverStreamingPredict" "publishers.models.serverStreamingPredict" Other, ByName;
    POST "/{version}/publishers/google/models/{model}:computeTokens" "publishers.models.computeTokens" Other, ByName;
    POST "/{version}/publishers/google/models/{model}:predict" "publishers.models.predict" Other, ByName;
    POST "/{version}/publishers/google/models/{model}:predictLongRunning" "publishers.models.predictLongRunning" Other, ByName;
    POST "/{version}/publishers/google/models/{model}:fetchPredictOperation" "publishers.models.fetchPredictOperation" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/publishers/google/models/{model}/operations/{operation}" "publishers.models.operations.get" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/operations/{operation}" "projects.operations.get" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:generateContent" "endpoints.generateContent" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:streamGenerateContent" "endpoints.streamGenerateContent" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:countTokens" "endpoints.countTokens" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:predict" "endpoints.predict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:rawPredict" "endpoints.rawPredict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}:streamRawPredict" "endpoints.streamRawPredict" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/endpoints/{endpoint}/chat/completions" "endpoints.chat.completions" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/batchPredictionJobs" "batchPredictionJobs.create" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/batchPredictionJobs" "batchPredictionJobs.list" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/batchPredictionJobs/{job}" "batchPredictionJobs.get" Other, ByName;
    DELETE "/{version}/projects/{project}/locations/{location}/batchPredictionJobs/{job}" "batchPredictionJobs.delete" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/batchPredictionJobs/{job}:cancel" "batchPredictionJobs.cancel" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/tuningJobs" "tuningJobs.create" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/tuningJobs" "tuningJobs.list" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/tuningJobs/{job}" "tuningJobs.get" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/tuningJobs/{job}:cancel" "tuningJobs.cancel" Other, ByName;
    POST "/{version}/projects/{project}/locations/{location}/interactions" "interactions.create" Other, ByName;
    GET "/{version}/projects/{project}/locations/{location}/interactions/{interaction}" "interactions.get" Other, ByName;
    GET "/ws/google.cloud.aiplatform.{version}.LlmBidiService/BidiGenerateContent" "live.BidiGenerateContent" Other, Socket;
}
