"""Flow control's decisions: which queues hold their producers; announced and recorded."""
