"""Hugging Face's models with tiny random configurations: a training step, and what they generate."""

from __future__ import annotations

import torch

from . import add

SIZES = dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
             max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2)
FEW = dict(num_key_value_heads=2)
CODER = dict(vocab_size=60, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
             encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
             decoder_start_token_id=1, forced_eos_token_id=2)
PICTURE = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, image_size=32, patch_size=8)
EXPERTS = dict(num_local_experts=4, num_experts_per_tok=2)

GENERATES = {  # name of the classes → configuration
    "Llama": SIZES | FEW, "Mistral": SIZES | FEW, "Qwen2": SIZES | FEW, "Qwen3": SIZES | FEW | dict(head_dim=8),
    "Gemma": SIZES | FEW | dict(head_dim=8), "Gemma2": SIZES | FEW | dict(head_dim=8), "Phi": SIZES, "Phi3": SIZES | FEW,
    "Mixtral": SIZES | FEW | EXPERTS, "Qwen2Moe": SIZES | FEW | dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                                                  shared_expert_intermediate_size=16),
    "Olmo": SIZES | FEW, "Cohere": SIZES | FEW, "StableLm": SIZES | FEW, "Starcoder2": SIZES | FEW, "Granite": SIZES | FEW,
    "GPTNeoX": SIZES, "GPT2": dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2),
    "GPTJ": dict(vocab_size=60, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, bos_token_id=1, eos_token_id=2),
    "GPTNeo": dict(vocab_size=60, hidden_size=32, num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]],
                   max_position_embeddings=64, bos_token_id=1, eos_token_id=2),
    "OPT": dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=48, word_embed_proj_dim=32,
                max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2),
    "Bloom": dict(vocab_size=60, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, pad_token_id=0),
    "Falcon": dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2),
    "Mamba": dict(vocab_size=60, hidden_size=32, num_hidden_layers=2, state_size=4, bos_token_id=1, eos_token_id=2, pad_token_id=0),
}
READS = {  # masked language models
    "Bert": SIZES, "Roberta": SIZES, "Electra": SIZES | dict(embedding_size=16), "Albert": SIZES | dict(embedding_size=16),
    "MPNet": SIZES, "DebertaV2": SIZES, "ModernBert": SIZES | dict(cls_token_id=1, sep_token_id=2),
    "DistilBert": dict(vocab_size=60, dim=32, n_layers=2, n_heads=4, hidden_dim=48, max_position_embeddings=64),
    "XLMRoberta": SIZES, "FNet": SIZES, "Longformer": SIZES | dict(attention_window=4),
}
TRANSLATES = {
    "T5": dict(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0),
    "Bart": CODER, "MBart": CODER, "Pegasus": CODER, "Marian": CODER, "M2M100": CODER,
}
LOOKS = {
    "ViT": PICTURE, "DeiT": PICTURE, "Beit": PICTURE, "Dinov2": PICTURE | dict(mlp_ratio=2),
    "ConvNext": dict(hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "ResNet": dict(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1]),
    "Swin": dict(image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=4),
    "Segformer": dict(depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32], num_attention_heads=[1, 2, 2, 2], decoder_hidden_size=16),
    "MobileViT": dict(image_size=64, hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 32]),
}


def model_of(family: str, head: str, sizes: dict):
    import transformers

    return getattr(transformers, family + head)(getattr(transformers, family + "Config")(**sizes))


def learn(model, device, **inputs) -> dict:
    """A step; the loss and the gradients. By SGD: Adam's first step tells the sign of gradients that are nought but rounding."""
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = model(**{name: value.to(device) for name, value in inputs.items()}).loss
    loss.backward()
    found = {"loss": loss} | {f"gradient of {name}": value.grad.clone() for name, value in model.named_parameters()
                              if value.grad is not None}
    optimizer.step()
    return found


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def _generates(family, sizes):
    def run(device):
        model = model_of(family, "ForCausalLM" if family not in ("GPT2", "GPTNeo") else {"GPT2": "LMHeadModel"}.get(family, "ForCausalLM"),
                         sizes)
        tokens = torch.randint(3, 60, (2, 9))
        mask = torch.ones_like(tokens)
        mask[0, 6:] = 0  # padded behind: a row with nothing to attend to has other gradients in the CPU's fused attention
        found = learn(without_dropout(model), device, input_ids=tokens, attention_mask=mask, labels=tokens)
        model.eval()
        mask = mask.flip(1)
        inputs = dict(input_ids=tokens.to(device), attention_mask=mask.to(device), max_new_tokens=6, pad_token_id=0)
        found["greedy"] = model.generate(**inputs, do_sample=False)
        torch.manual_seed(3)
        found["sampled"] = model.generate(**inputs, do_sample=True, top_k=10, top_p=0.9)
        if family != "Mamba":
            found["beams"] = model.generate(**inputs, do_sample=False, num_beams=3)
        return found

    return run


def _reads(family, sizes):
    def run(device):
        model = model_of(family, "ForMaskedLM", sizes)
        tokens = torch.randint(3, 60, (2, 8))
        masked = {} if family == "FNet" else {"attention_mask": (torch.arange(8)[None] < torch.tensor([[8], [5]])).long()}
        return learn(without_dropout(model), device, input_ids=tokens, labels=tokens, **masked)

    return run


def _translates(family, sizes):
    def run(device):
        model = model_of(family, "ForConditionalGeneration" if family != "Marian" else "MTModel", sizes)
        tokens, labels = torch.randint(3, 60, (2, 8)), torch.randint(3, 60, (2, 7))
        found = learn(without_dropout(model), device, input_ids=tokens, attention_mask=torch.ones_like(tokens), labels=labels)
        model.eval()
        return found | {"beams": model.generate(tokens.to(device), max_new_tokens=6, num_beams=2, do_sample=False)}

    return run


def _looks(family, sizes):
    def run(device):
        model = model_of(family, "ForImageClassification", sizes)
        return learn(without_dropout(model), device, pixel_values=torch.rand(2, 3, sizes.get("image_size", 32), sizes.get("image_size", 32)),
                     labels=torch.tensor([0, 1]))

    return run


def clip(device):
    import transformers

    text = SIZES | dict(projection_dim=16)
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=PICTURE | dict(projection_dim=16), projection_dim=16))
    return learn(model, device, input_ids=torch.randint(3, 60, (2, 8)), pixel_values=torch.rand(2, 3, 32, 32),
                 attention_mask=torch.ones(2, 8, dtype=torch.int64), return_loss=torch.tensor(True))


def wav2vec2(device):
    model = model_of("Wav2Vec2", "ForCTC", dict(
        vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48, conv_dim=(16, 16),
        conv_stride=(5, 4), conv_kernel=(10, 4), num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
        pad_token_id=0, layerdrop=0.0, mask_time_prob=0.0))
    return learn(without_dropout(model), device, input_values=torch.randn(2, 1600), labels=torch.randint(1, 20, (2, 6)))


def whisper(device):
    model = model_of("Whisper", "ForConditionalGeneration", CODER | dict(
        num_mel_bins=8, max_source_positions=20, max_target_positions=20, suppress_tokens=None, begin_suppress_tokens=None))
    return learn(without_dropout(model), device, input_features=torch.randn(2, 8, 40), labels=torch.randint(3, 60, (2, 6)))


for families, make in ((GENERATES, _generates), (READS, _reads), (TRANSLATES, _translates), (LOOKS, _looks)):
    for family, sizes in families.items():
        add("Hugging Face", family, make(family, sizes), "transformers")
for run in (clip, wav2vec2, whisper):
    add("Hugging Face", run.__name__, run, "transformers")
