"""The experiments of the page Misconceptions: one module a claim, which draws what answers it and says it in words."""
