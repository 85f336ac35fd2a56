"""PromptCoT 2.0: problems are designed from concepts, and the designer learns."""
