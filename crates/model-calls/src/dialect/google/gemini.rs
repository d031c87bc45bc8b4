//! Methods of the Gemini API, with paths like `/{version}/models/{model}:{method}`.

use crate::dialect::method::{
    Access::{self, ByName, Open, Socket},
    Api, Framing, MethodSpec,
    Operation::{self, BatchEmbed, CountTokens, CreateCache, Embed, Generate, Other, UseCache},
    method_table,
};

/// A stream; the query decides on its framing.
pub const STREAM: Operation = Operation::Stream(Framing::Array);

/// Listings of cached content.
pub const LIST_OF_CACHES: Access =
    Access::Never("would show every caller what the others have cached");

method_table! { Gemini:
    POST "/{version}/models/{model}:generateContent" "models.generateContent" Generate, Open;
    POST "/{version}/models/{model}:streamGenerateContent" "models.streamGenerateContent" STREAM, Open;
    POST "/{version}/models/{model}:countTokens" "models.countTokens" CountTokens, Open;
    POST "/{version}/models/{model}:embedContent" "models.embedContent" Embed, Open;
    POST "/{version}/models/{model}:batchEmbedContents" "models.batchEmbedContents" BatchEmbed, Open;
    GET "/{version}/models" "models.list" Other, Open;
    GET "/{version}/models/{model}" "models.get" Other, Open;
    POST "/{version}/cachedContents" "cachedContents.create" CreateCache, ByName;
    GET "/{version}/cachedContents" "cachedContents.list" Other, LIST_OF_CACHES;
    GET "/{version}/cachedContents/{cache}" "cachedContents.get" UseCache, ByName;
    PATCH "/{version}/cachedContents/{cache}" "cachedContents.patch" UseCache, ByName;
    DELETE "/{version}/cachedContents/{cache}" "cachedContents.delete" UseCache, ByName;
    POST "/{version}/models/{model}:generateAnswer" "models.generateAnswer" Other, ByName;
    POST "/{version}/models/{model}:predict" "models.predict" Other, ByName;
    POST "/{version}/models/{model}:predictLongRunning" "models.predictLongRunning" Other, ByName;
    POST "/{version}/models/{model}:batchGenerateContent" "models.batchGenerateContent" Other, ByName;
    POST "/{version}/models/{model}:asyncBatchEmbedContent" "models.asyncBatchEmbedContent" Other, ByName;
    GET "/{version}/models/{model}/operations" "models.operations.list" Other, ByName;
    GET "/{version}/models/{model}/operations/{operation}" "models.operations.get" Other, ByName;
    GET "/{version}/operations/{operation}" "operations.get" Other, ByName;
    POST "/{version}/files" "files.create" Other, ByName;
    POST "/upload/{version}/files" "files.create" Other, ByName;
    PUT "/upload/{version}/files" "files.create" Other, ByName;
    POST "/{version}/files:register" "files.register" Other, ByName;
    GET "/{version}/files" "files.list" Other, ByName;
    GET "/{version}/files/{file}" "files.get" Other, ByName;
    DELETE "/{version}/files/{file}" "files.delete" Other, ByName;
    GET "/{version}/files/{file}:download" "files.download" Other, ByName;
    GET "/download/{version}/files/{file}:download" "files.download" Other, ByName;
    GET "/{version}/generatedFiles" "generatedFiles.list" Other, ByName;
    GET "/{version}/generatedFiles/{file}" "generatedFiles.get" Other, ByName;
    GET "/{version}/generatedFiles/{file}/operations/{operation}" "generatedFiles.operations.get" Other, ByName;
    GET "/{version}/batches" "batches.list" Other, ByName;
    GET "/{version}/batches/{batch}" "batches.get" Other, ByName;
    DELETE "/{version}/batches/{batch}" "batches.delete" Other, ByName;
    POST "/{version}/batches/{batch}:cancel" "batches.cancel" Other, ByName;
    PATCH "/{version}/batches/{batch}:updateGenerateContentBatch" "batches.updateGenerateContentBatch" Other, ByName;
    PATCH "/{version}/batches/{batch}:updateEmbedContentBatch" "batches.updateEmbedContentBatch" Other, ByName;
    POST "/{version}/interactions" "interactions.create" Other, ByName;
    GET "/{version}/interactions/{interaction}" "interactions.get" Other, ByName;
    DELETE "/{version}/interactions/{interaction}" "interactions.delete" Other, ByName;
    POST "/{version}/interactions/{interaction}/cancel" "interactions.cancel" Other, ByName;
    POST "/{version}/auth_tokens" "auth_tokens.create" Other, ByName;
    GET "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent" "live.BidiGenerateContent" Other, Socket;
    GET "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContentConstrained" "live.BidiGenerateContentConstrained" Other, Socket;
    GET "/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateMusic" "live.BidiGenerateMusic" Other, Socket;
    POST "/{version}/dynamic/{dynamic}:generateContent" "dynamic.generateContent" Other, ByName;
    POST "/{version}/dynamic/{dynamic}:streamGenerateContent" "dynamic.streamGenerateContent" Other, ByName;
    POST "/{version}/tunedModels" "tunedModels.create" Other, ByName;
    GET "/{version}/tunedModels" "tunedModels.list" Other, ByName;
    GET "/{version}/tunedModels/{tuned}" "tunedModels.get" Other, ByName;
    PATCH "/{version}/tunedModels/{tuned}" "tunedModels.patch" Other, ByName;
    DELETE "/{version}/tunedModels/{tuned}" "tunedModels.delete" Other, ByName;
    POST "/{version}/tunedModels/{tuned}:generateContent" "tunedModels.generateContent" Other, ByName;
    POST "/{version}/tunedModels/{tuned}:streamGenerateContent" "tunedModels.streamGenerateContent" Other, ByName;
    POST "/{version}/tunedModels/{tuned}:transferOwnership" "tunedModels.transferOwnership" Other, ByName;
    GET "/{version}/tunedModels/{tuned}/operations/{operation}" "tunedModels.operations.get" Other, ByName;
    POST "/{version}/tunedModels/{tuned}/permissions" "tunedModels.permissions.create" Other, ByName;
    GET "/{version}/tunedModels/{tuned}/permissions" "tunedModels.permissions.list" Other, ByName;
    POST "/{version}/corpora" "corpora.create" Other, ByName;
    GET "/{version}/corpora" "corpora.list" Other, ByName;
    GET "/{version}/corpora/{corpus}" "corpora.get" Other, ByName;
    PATCH "/{version}/corpora/{corpus}" "corpora.patch" Other, ByName;
    DELETE "/{version}/corpora/{corpus}" "corpora.delete" Other, ByName;
    POST "/{version}/corpora/{corpus}:query" "corpora.query" Other, ByName;
    POST "/{version}/corpora/{corpus}/documents" "corpora.documents.create" Other, ByName;
    GET "/{version}/corpora/{corpus}/documents" "corpora.documents.list" Other, ByName;
    GET "/{version}/corpora/{corpus}/documents/{document}" "corpora.documents.get" Other, ByName;
    POST "/{version}/fileSearchStores" "fileSearchStores.create" Other, ByName;
    GET "/{version}/fileSearchStores" "fileSearchStores.list" Other, ByName;
    GET "/{version}/fileSearchStores/{store}" "fileSearchStores.get" Other, ByName;
    DELETE "/{version}/fileSearchStores/{store}" "fileSearchStores.delete" Other, ByName;
    POST "/{version}/fileSearchStores/{store}:importFile" "fileSearchStores.importFile" Other, ByName;
    POST "/{version}/fileSearchStores/{store}:uploadToFileSearchStore" "fileSearchStores.uploadToFileSearchStore" Other, ByName;
    POST "/upload/{version}/fileSearchStores/{store}:uploadToFileSearchStore" "fileSearchStores.uploadToFileSearchStore" Other, ByName;
    GET "/{version}/fileSearchStores/{store}/operations/{operation}" "fileSearchStores.operations.get" Other, ByName;
    GET "/{version}/fileSearchStores/{store}/upload/operations/{operation}" "fileSearchStores.operations.get" Other, ByName;
    GET "/{version}/fileSearchStores/{store}/documents" "fileSearchStores.documents.list" Other, ByName;
    GET "/{version}/fileSearchStores/{store}/documents/{document}" "fileSearchStores.documents.get" Other, ByName;
    DELETE "/{version}/fileSearchStores/{store}/documents/{document}" "fileSearchStores.documents.delete" Other, ByName;
    POST "/{version}/openai/chat/completions" "openai.chat.completions" Other, ByName;
    POST "/{version}/openai/embeddings" "openai.embeddings" Other, ByName;
    POST "/{version}/openai/images/generations" "openai.images.generations" Other, ByName;
    POST "/{version}/openai/files" "openai.files.create" Other, ByName;
    POST "/{version}/openai/batches" "openai.batches.create" Other, ByName;
    GET "/{version}/openai/batches/{batch}" "openai.batches.get" Other, ByName;
    GET "/{version}/openai/models" "openai.models.list" Other, ByName;
    GET "/{version}/openai/models/{model}" "openai.models.get" Other, ByName;
}
